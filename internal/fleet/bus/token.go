package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// Role is what a token lets its holder do.
type Role string

// The roles.
const (
	Join Role = "join" // be a node: answer questions and ship rows
	Asks Role = "ask"  // ask all nodes
)

// Token lets its holder in, and tells which hub is the right one.
type Token struct {
	Role   Role
	Secret string // 128 bits
	Pin    string // SHA-256 of the certificate's public key; "" where the machine's authorities vouch for it

	Creds string // file with credentials for a NATS of the user's, in place of all the above
}

// credsHead begins a file of credentials as NATS's own tools write it.
const credsHead = "-----BEGIN NATS USER JWT-----" // #nosec G101 -- what a secret begins with, and no secret

// Lets says whether its holder may have a role. Of credentials a NATS of the user's decides.
func (t Token) Lets(role Role) bool { return t.Creds != "" || t.Role == role }

const tokenHead = "memgauge1"

// NewToken makes one with a fresh secret.
func NewToken(role Role, pin string) Token {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return Token{Role: role, Secret: hex.EncodeToString(b), Pin: pin}
}

// String is the token as it stands in a file.
func (t Token) String() string {
	return strings.Join([]string{tokenHead, string(t.Role), t.Secret, t.Pin}, ".")
}

// ParseToken reads a token.
func ParseToken(text string) (Token, error) {
	parts := strings.Split(strings.TrimSpace(text), ".")
	if len(parts) != 4 || parts[0] != tokenHead || len(parts[2]) != 32 {
		return Token{}, remedy.Add(errors.New("that is not a token of a hub"),
			"memgauge hub prints the file's name; its content begins "+tokenHead+".")
	}
	t := Token{Role: Role(parts[1]), Secret: parts[2], Pin: parts[3]}
	if t.Role != Join && t.Role != Asks {
		return Token{}, fmt.Errorf("a token for %.20q", parts[1])
	}
	return t, nil
}

// maxToken is more than a token has, and more than credentials do.
const maxToken = 64 << 10

// SharedHint is what --shared-secrets and MEMGAUGE_SHARED_SECRETS are for.
const SharedHint = "take secrets that others than their owner can read: a cluster gives the files of a volume " +
	"their mode, and only the pod has them (default from MEMGAUGE_SHARED_SECRETS=1)"

// SharedSecrets is what the environment says of secrets that others can read.
func SharedSecrets() bool { return os.Getenv("MEMGAUGE_SHARED_SECRETS") == "1" }

// ReadToken reads the token in a file, which nobody else may read unless it is shared; or takes that for credentials of
// NATS.
func ReadToken(path string, shared bool) (Token, error) {
	f, err := rootdir.OpenNamed(path) // a cluster's secrets are links
	if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	return tokenOf(f, path, shared)
}

// TokenIn is ReadToken for a file of ours.
func TokenIn(dir *rootdir.Dir, name string, shared bool) (Token, error) {
	f, err := dir.Open(name)
	if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	return tokenOf(f, filepath.Join(dir.Path(), name), shared)
}

// tokenOf reads a token and closes the file.
func tokenOf(f *os.File, path string, shared bool) (Token, error) {
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	switch mode := info.Mode().Perm(); {
	case mode&0o002 != 0:
		return Token{}, remedy.Add(fmt.Errorf("read the token %s: everybody can write it", path), "chmod 600 "+path)
	case mode&0o077 != 0 && !shared:
		return Token{}, remedy.Add(fmt.Errorf("read the token %s: others can read it", path),
			"chmod 600 "+path+"; a cluster's volume, which only its pod has, is read with --shared-secrets")
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	if strings.Contains(string(text), credsHead) {
		return Token{Creds: path}, nil
	}
	t, err := ParseToken(string(text))
	if err != nil {
		return t, fmt.Errorf("read the token %s: %w", path, err)
	}
	return t, nil
}

func (t Token) is(secret string) bool {
	return t.Secret != "" && subtle.ConstantTimeCompare([]byte(t.Secret), []byte(secret)) == 1
}

// pinOf is what a token says of a certificate.
func pinOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
