// Package nats starts a NATS server as its users have one: apart from memgauge, with JetStream, TLS, an operator, an
// account, and a file of credentials for each user, as nsc makes them.
package nats

import (
	"crypto/tls"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"github.com/memgauge/memgauge/test/env"
)

// User is what one may publish and subscribe.
type User struct{ Publish, Subscribe []string }

// Server is a running one.
type Server struct {
	URL string
	CA  string // file
	dir string
}

// Creds is the file of a user's credentials.
func (s Server) Creds(user string) string { return filepath.Join(s.dir, user+".creds") }

// Start starts one that takes messages of maxPayload bytes; it ends with the test.
func Start(t *testing.T, users map[string]User, maxPayload int32) Server {
	t.Helper()
	s := Server{dir: t.TempDir()}
	s.CA = filepath.Join(s.dir, "ca.pem")
	key, text := env.Must[nkeys.KeyPair](t), env.Must[string](t)
	operator, account, system := key(nkeys.CreateOperator()), key(nkeys.CreateAccount()), key(nkeys.CreateAccount())
	own, its := text(account.PublicKey()), text(system.PublicKey())
	claims := jwt.NewAccountClaims(own)
	claims.Limits.JetStreamLimits = jwt.JetStreamLimits{DiskStorage: -1, MemoryStorage: -1}
	accounts := &server.MemAccResolver{}
	for id, claims := range map[string]*jwt.AccountClaims{own: claims, its: jwt.NewAccountClaims(its)} {
		if err := accounts.Store(id, text(claims.Encode(operator))); err != nil {
			t.Fatal(err)
		}
	}
	for name, u := range users {
		s.write(t, s.Creds(name), credentials(t, u, account))
	}
	web := httptest.NewTLSServer(nil) // for its certificate, which is one for 127.0.0.1
	defer web.Close()
	s.write(t, s.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}))
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: s.dir, MaxPayload: maxPayload, TrustedKeys: []string{text(operator.PublicKey())},
		AccountResolver: accounts, SystemAccount: its, TLS: true, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13}})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(10 * time.Second) {
		t.Fatal("the NATS server does not start")
	}
	s.URL = "nats://" + ns.Addr().String()
	return s
}

func credentials(t *testing.T, u User, account nkeys.KeyPair) []byte {
	t.Helper()
	user := env.Must[nkeys.KeyPair](t)(nkeys.CreateUser())
	text := env.Must[string](t)
	claims := jwt.NewUserClaims(text(user.PublicKey()))
	claims.Pub.Allow.Add(u.Publish...)
	claims.Sub.Allow.Add(u.Subscribe...)
	bytes := env.Must[[]byte](t)
	return bytes(jwt.FormatUserConfig(text(claims.Encode(account)), bytes(user.Seed())))
}

func (s Server) write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
