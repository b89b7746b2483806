package bus

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// certYears is how long a certificate of ours lasts: the token pins its key, so nothing is won by an early end.
const certYears = 20

// certificate loads the hub's own certificate from dir, or makes it there.
func certificate(dir *rootdir.Dir) (tls.Certificate, error) {
	c, err := loadPair(dir)
	if !errors.Is(err, fs.ErrNotExist) {
		return withLeaf(c, err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject: pkix.Name{CommonName: "memgauge hub"}, DNSNames: []string{"memgauge-hub"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(certYears, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return c, fmt.Errorf("make a certificate: %w", err)
	}
	for _, file := range []struct {
		name, kind string
		der        []byte
	}{{keyFile, "PRIVATE KEY", private}, {certFile, "CERTIFICATE", der}} {
		text := pem.EncodeToMemory(&pem.Block{Type: file.kind, Bytes: file.der})
		if err := dir.ReplaceText(file.name, text); err != nil {
			return c, fmt.Errorf("make a certificate: %w", err)
		}
	}
	return withLeaf(loadPair(dir))
}

// Files of the hub's own certificate.
const (
	certFile = "cert.pem"
	keyFile  = "key.pem"
	maxPEM   = 1 << 20 // bytes; ours take 700
)

func loadPair(dir *rootdir.Dir) (c tls.Certificate, err error) {
	cert, err := dir.ReadFile(certFile, maxPEM)
	if err != nil {
		return c, err
	}
	key, err := dir.ReadFile(keyFile, maxPEM)
	if err != nil {
		return c, err
	}
	return tls.X509KeyPair(cert, key)
}

func withLeaf(c tls.Certificate, err error) (tls.Certificate, error) {
	if err != nil {
		return c, fmt.Errorf("load the certificate: %w", err)
	}
	c.Leaf, err = x509.ParseCertificate(c.Certificate[0])
	if err != nil {
		return c, fmt.Errorf("load the certificate: %w", err)
	}
	return c, nil
}

// pinned is the client's side: the hub must have the key that the token names, or without one a certificate that the
// machine's authorities, or those in a file, vouch for.
func pinned(pin, caFile string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS13}
	if pin == "" {
		if caFile == "" {
			return conf, nil
		}
		text, err := os.ReadFile(caFile)
		if err != nil {
			return nil, fmt.Errorf("read the authorities: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("read the authorities in %s: no certificate", caFile)
		}
		return conf, nil
	}
	conf.InsecureSkipVerify = true // #nosec G402 -- the key is compared instead, which no authority can sign away
	conf.VerifyConnection = func(s tls.ConnectionState) error {
		if len(s.PeerCertificates) == 0 || pinOf(s.PeerCertificates[0]) != pin {
			return errPin
		}
		return nil
	}
	return conf, nil
}

var errPin = errors.New("the hub's certificate is not the one that the token names")
