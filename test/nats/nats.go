// Package nats starts a NATS server as its users have one: apart from memgauge, with JetStream, TLS, an operator, an
// account, and a file of credentials for each user, as nsc makes them.
package nats

import (
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

	dir     string
	account string
}

// Creds is the file of a user's credentials.
func (s Server) Creds(user string) string { return filepath.Join(s.dir, user+".creds") }

// Start starts one that takes messages of maxPayload bytes; it ends with the test.
func Start(t *testing.T, users map[string]User, maxPayload int32) Server {
	t.Helper()
	s, o := prepare(t, users, maxPayload)
	o.StoreDir = s.dir
	ns := start(t, o)
	t.Cleanup(func() { stop(ns) })
	s.URL = "nats://" + ns.Addr().String()
	return s
}

// Cluster is some servers that keep streams together. Its URL names them all.
type Cluster struct {
	Server
	options []*server.Options
	running []*server.Server
}

// StartCluster starts n of them on the loopback, which know each other; they end with the test.
func StartCluster(t *testing.T, users map[string]User, maxPayload int32, n int) *Cluster {
	t.Helper()
	s, common := prepare(t, users, maxPayload)
	c := &Cluster{Server: s, running: make([]*server.Server, n)}
	var routes []*url.URL
	for range n {
		routes = append(routes, &url.URL{Scheme: "nats", Host: net.JoinHostPort("127.0.0.1", env.FreePort(t))})
	}
	var urls []string
	for i := range n {
		o := *common
		o.ServerName, o.StoreDir, o.Routes = fmt.Sprint("s", i), filepath.Join(s.dir, fmt.Sprint("s", i)), routes
		o.Port, _ = strconv.Atoi(env.FreePort(t))
		o.Cluster.Name, o.Cluster.Host = "c", "127.0.0.1"
		o.Cluster.Port, _ = strconv.Atoi(routes[i].Port())
		c.options, urls = append(c.options, &o), append(urls, fmt.Sprint("nats://127.0.0.1:", o.Port))
	}
	for i := range n {
		c.Start(t, i)
	}
	c.URL = strings.Join(urls, ",")
	t.Cleanup(func() {
		for i := range n {
			c.Lose(i)
		}
	})
	for end := time.Now().Add(time.Minute); c.Leader() < 0; time.Sleep(10 * time.Millisecond) { // an election's time
		if time.Now().After(end) {
			t.Fatal("the servers choose no leader")
		}
	}
	return c
}

// Start starts a server again.
func (c *Cluster) Start(t *testing.T, i int) {
	t.Helper()
	o := *c.options[i]
	c.running[i] = start(t, &o)
}

// Lose ends a server.
func (c *Cluster) Lose(i int) {
	if ns := c.running[i]; ns != nil {
		c.running[i] = nil
		stop(ns)
	}
}

// Leader is the server that decides about streams, -1 if there is none.
func (c *Cluster) Leader() int {
	return slices.IndexFunc(c.running, func(ns *server.Server) bool { return ns != nil && ns.JetStreamIsLeader() })
}

// StreamLeader is the server that takes a stream's messages first, -1 if there is none.
func (c *Cluster) StreamLeader(stream string) int {
	return slices.IndexFunc(c.running, func(ns *server.Server) bool {
		return ns != nil && ns.JetStreamIsStreamLeader(c.account, stream)
	})
}

// Current says whether all servers have all of a stream.
func (c *Cluster) Current(stream string) bool {
	return !slices.ContainsFunc(c.running, func(ns *server.Server) bool {
		return ns == nil || !ns.JetStreamIsStreamCurrent(c.account, stream)
	})
}

// prepare makes the users, and what all servers have in common.
func prepare(t *testing.T, users map[string]User, maxPayload int32) (Server, *server.Options) {
	t.Helper()
	s := Server{dir: t.TempDir()}
	s.CA = filepath.Join(s.dir, "ca.pem")
	key, text := env.Must[nkeys.KeyPair](t), env.Must[string](t)
	operator, account, system := key(nkeys.CreateOperator()), key(nkeys.CreateAccount()), key(nkeys.CreateAccount())
	own, its := text(account.PublicKey()), text(system.PublicKey())
	s.account = own
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
	return s, &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		JetStream: true, MaxPayload: maxPayload, TrustedKeys: []string{text(operator.PublicKey())},
		AccountResolver: accounts, SystemAccount: its, TLS: true, TLSTimeout: 5,
		TLSConfig: &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13}}
}

func start(t *testing.T, o *server.Options) *server.Server {
	t.Helper()
	ns, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	if !ns.ReadyForConnections(10 * time.Second) {
		stop(ns)
		t.Fatal("the NATS server does not start")
	}
	return ns
}

func stop(ns *server.Server) {
	ns.Shutdown()
	ns.WaitForShutdown()
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
