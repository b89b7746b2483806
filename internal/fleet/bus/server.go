package bus

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// ServerOptions are a hub's.
type ServerOptions struct {
	Dir      *rootdir.Dir // ours; streams, certificate and keys
	Shared   bool         // its group may write it
	Addr     string       // host:port; port 0 takes any
	Join     Token
	Ask      Token
	Cert     tls.Certificate // as Identity has given it
	Insecure bool            // no TLS and no credentials: loopback only
	MaxDisk  int64           // bytes of frames that wait for the lake
	Log      *slog.Logger

	// Known remembers a node's name with the first key that claims it, and says why another may not have it, in words
	// that are counted: few of them. from is the address that asks, the zero one where there is none.
	Known func(node, key string, from netip.Addr) error
}

// Server is the bus inside of a hub.
type Server struct {
	o        ServerOptions
	ns       *server.Server
	internal string // password of the hub's own connection
	js       *server.JetStreamConfig
	tokens   atomic.Pointer[[]Token]
	stuck    atomic.Bool  // the stream could not write
	letIn    atomic.Int64 // connections of those who are known, at the last look

	mu      sync.Mutex
	refused map[string]int64 // by reason
	keys    map[string]int   // connections of nodes, by their keys; see admits
	floods  map[string]time.Time
	askers  map[uint64]*asker // connections of who asks, by their numbers
	places  map[string]*place
	said    float64                                     // of all places: see loud
	heard   time.Time                                   // when people were counted last
	hear    func(place string) (stop func(), err error) // what comes from a place; nil while nobody does

	over chan struct{} // closed at the end
	once sync.Once
	work sync.WaitGroup
}

const (
	authTime  = 10 * time.Second // a new name is on the disk before its node is let in
	readyTime = 20 * time.Second // JetStream reads its files at the start; some GB take seconds
	maxUnread = 256 << 20        // bytes that wait in a reader's own process: the answers of 1,000 nodes at once
)

// Identity gives the hub's certificate: the user's, or one of its own in dir; and the pin that tokens have of it.
func Identity(dir *rootdir.Dir, certFile, keyFile string) (c tls.Certificate, pin string, err error) {
	if certFile != "" {
		c, err = withLeaf(tls.LoadX509KeyPair(certFile, keyFile))
		return c, "", err // it will be renewed, with another key perhaps: authorities vouch for it
	}
	if c, err = certificate(dir); err != nil {
		return c, "", err
	}
	return c, pinOf(c.Leaf), nil
}

// streamDir is where the server keeps frames. It writes there by path, so nothing in it may lead elsewhere.
func streamDir(o ServerOptions) (string, error) {
	path, level := filepath.Join(o.Dir.Path(), "bus"), trust.Code
	if o.Shared {
		level = trust.Data
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if err := o.Dir.MkdirAll("bus"); err != nil { // refuses a link
		return "", err
	}
	d, err := rootdir.Own(path, level)
	if err != nil {
		return "", err
	}
	defer d.Close()
	return path, d.Check(level)
}

// StartServer starts the bus. Who calls it closes it.
func StartServer(o ServerOptions) (*Server, error) {
	host, portText, err := net.SplitHostPort(o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen at %q: %w", o.Addr, err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil || port < 0 || port > 65535 {
		return nil, fmt.Errorf("listen at %q: %q is not a port", o.Addr, portText)
	}
	if o.Insecure && !loopback(host) {
		return nil, remedy.Add(fmt.Errorf("listen at %s: not without credentials and TLS", o.Addr),
			"leave out --insecure, or listen at 127.0.0.1")
	}
	streams, err := streamDir(o)
	if err != nil {
		return nil, fmt.Errorf("start the bus: %w", err)
	}
	s := &Server{o: o, internal: randomText(), refused: map[string]int64{}, keys: map[string]int{},
		floods: map[string]time.Time{}, askers: map[uint64]*asker{}, places: map[string]*place{},
		over: make(chan struct{})}
	s.Take(o.Join, o.Ask)
	if port == 0 {
		port = server.RANDOM_PORT
	}
	opts := &server.Options{ServerName: "memgauge-hub", Host: host, Port: port, NoSigs: true, NoLog: true,
		JetStream: true, StoreDir: streams, JetStreamMaxStore: o.MaxDisk,
		JetStreamMaxMemory: -1, SyncAlways: true, MaxPayload: MaxMessage, MaxPending: maxPending,
		WriteDeadline: writeTime, MaxClosedClients: maxClosed,
		MaxConn: maxConnections, MaxSubs: maxSubs, MaxSubTokens: maxTokens, MaxControlLine: maxLine,
		AuthTimeout: authTime.Seconds(), CustomClientAuthentication: s,
		AlwaysEnableNonce: true, DisableShortFirstPing: true}
	if !o.Insecure {
		opts.TLSConfig = &tls.Config{Certificates: []tls.Certificate{o.Cert}, MinVersion: tls.VersionTLS13}
		opts.TLS, opts.TLSTimeout, opts.TLSHandshakeFirst = true, dialTime.Seconds(), true
	}
	if s.ns, err = server.NewServer(opts); err != nil {
		return nil, fmt.Errorf("start the bus: %w", err)
	}
	s.js = &server.JetStreamConfig{MaxMemory: opts.JetStreamMaxMemory, MaxStore: opts.JetStreamMaxStore,
		StoreDir: opts.StoreDir, SyncAlways: true}
	words := &tells{log: o.Log, stuck: &s.stuck, refuse: s.refuse, said: map[string]int64{}}
	s.ns.SetLoggerV2(words, true, false, false)
	s.ns.Start()
	if !s.ns.ReadyForConnections(readyTime) {
		s.Close()
		return nil, remedy.Add(fmt.Errorf("listen at %s: it can't be had", o.Addr),
			"another program may have the port: --listen takes another one")
	}
	s.work.Go(s.watch)
	return s, nil
}

// Take says which tokens let their holders in from now on. Who is connected stays so.
func (s *Server) Take(tokens ...Token) { s.tokens.Store(&tokens) }

// lets says whether a secret is that of a token for a role.
func (s *Server) lets(role Role, secret string) bool {
	return slices.ContainsFunc(*s.tokens.Load(), func(t Token) bool { return t.Role == role && t.is(secret) })
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.ns.Addr().String() }

// Close ends the bus and waits for it.
func (s *Server) Close() {
	s.once.Do(func() { close(s.over) })
	s.work.Wait()
	s.ns.Shutdown()
	s.ns.WaitForShutdown()
}

// Connect is the hub's own connection, which needs no network.
func (s *Server) Connect() (*Conn, error) {
	c, err := dial("", nats.InProcessServer(s.ns), nats.UserInfo(hubUser, s.internal), nats.Name("hub"))
	if err == nil {
		c.inside = s
	}
	return c, err
}

// Refused counts whom the bus did not let in, by reason.
func (s *Server) Refused() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]int64{}
	for why, n := range s.refused {
		out[why] = n
	}
	return out
}

const (
	hubUser  = "hub"
	askUser  = "ask:" // and the place
	nodeUser = "node:"
)

// Check decides on a client, as server.Authentication.
func (s *Server) Check(c server.ClientAuthentication) bool {
	o := c.GetOpts()
	user, why := s.user(o.Username, o.Password, o.Nkey, o.Sig, c)
	if user == nil {
		if n := s.refuse(why); Seldom(n) {
			s.o.Log.Warn("refused a connection", "why", why, "from", fmt.Sprint(c.RemoteAddress()),
				"as", clip(o.Username), "so far", n)
		}
		return false
	}
	c.RegisterUser(user)
	return true
}

func clip(s string) string { return s[:min(len(s), 140)] }

// refuse counts, and says how many it were.
func (s *Server) refuse(why string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[why]++
	return s.refused[why]
}

// Reasons for which a connection or a message is refused.
const (
	whyToken    = "wrong token"
	whyName     = "no name of a node"
	whyPlace    = "no place of who asks"
	whyKey      = "wrong signature"
	whyTLS      = "no TLS 1.3, or another hub's certificate wanted"
	whyLarge    = "message too large, or of no size"
	whySubject  = "message that it may not send or hear"
	whySilent   = "message before a token"
	whyFlood    = "too many messages a second"
	whyMany     = "too many connections of nodes, or of this one"
	whyAskers   = "too many connections of people"
	whyIdle     = "said nothing while another wanted its place"
	whyStranger = "too many connections without a token"
	whyUnread   = "too many bytes that it does not read"
	whyHears    = "hears one subject many times over"
)

// refusals are reasons by what the server says of them, behind the address and the number of a connection.
var refusals = map[string]string{noHandshake: whyTLS, server.ErrMaxPayload.Error(): whyLarge,
	"processPub Bad or Missing": whyLarge, "processHeaderPub Bad or Missing": whyLarge,
	server.ErrMaxControlLine.Error(): whyLarge, "Publish Violation": whySubject, "Subscription Violation": whySubject}

// noHandshake is said as an error, or, of whoever speaks anything but TLS, among what is for debugging.
const noHandshake = "TLS handshake error"

// user is what a client may do; nil and the reason if it may not come in.
func (s *Server) user(name, secret, key, sig string, c server.ClientAuthentication) (*server.User, string) {
	switch {
	case name == hubUser && (Token{Secret: s.internal}).is(secret):
		return &server.User{Username: hubUser}, ""
	case strings.HasPrefix(name, askUser) && (s.o.Insecure || s.lets(Asks, secret)):
		place := strings.TrimPrefix(name, askUser)
		if CheckID(place) != nil {
			return nil, whyPlace
		}
		if !s.admitsAsker(c.GetID(), place) {
			return nil, whyAskers
		}
		return &server.User{Username: name, Permissions: asking(place)}, ""
	case !strings.HasPrefix(name, nodeUser) || !s.o.Insecure && !s.lets(Join, secret):
		return nil, whyToken
	}
	node := strings.TrimPrefix(name, nodeUser)
	switch {
	case !nodeName(node):
		return nil, whyName
	case !signed(key, sig, c.GetNonce()):
		return nil, whyKey
	case s.flooded(key, time.Now()):
		return nil, whyFlood
	}
	if err := s.o.Known(node, key, addressOf(c)); err != nil {
		return nil, err.Error()
	}
	if !s.admits(key) {
		return nil, whyMany
	}
	return &server.User{Username: name, Permissions: answering(node)}, ""
}

// addressOf is where a client comes from.
func addressOf(c server.ClientAuthentication) netip.Addr {
	at, _ := netip.ParseAddrPort(fmt.Sprint(c.RemoteAddress())) // the zero one for a connection within the process
	return at.Addr()
}

func signed(key, sig string, nonce []byte) bool {
	pub, err := nkeys.FromPublicKey(key)
	if err != nil || len(nonce) == 0 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	return err == nil && pub.Verify(nonce, raw) == nil
}

// asking is what people may do: speak to the hub from their own place, and hear what is answered there.
func asking(place string) *server.Permissions {
	return &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{Hub(place, ">")}},
		Subscribe: &server.SubjectPermission{Allow: []string{askInbox(place) + ".>", Answers(Ear(place), "*")}}}
}

// answering is what a node may do: hear questions to it, answer them, and ship in its own name.
func answering(node string) *server.Permissions {
	return &server.Permissions{
		Publish: &server.SubjectPermission{Allow: []string{Hello(node), ship(node), formerPrefix + token(node),
			Answer(node, "*", "*")}},
		Subscribe: &server.SubjectPermission{Allow: []string{Ask(""), Ask(node), Grant(""), Grant(node), Flows(node),
			keptPrefix + token(node), inbox(nodeUser+token(node)) + ".>"}}}
}

// inbox is the prefix of the subjects that answers to a user come on. Nodes hear nobody else's.
func inbox(user string) string { return "_INBOX." + strings.ReplaceAll(user, ":", "-") }

// askInbox is that of one who asks.
func askInbox(place string) string { return "_INBOX.ask." + place }

func randomText() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails: crypto/rand
	return hex.EncodeToString(b)
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// tells passes the server's words on.
type tells struct {
	log    *slog.Logger
	stuck  *atomic.Bool // set where it says that the stream can't write
	refuse func(why string) int64

	mu   sync.Mutex
	said map[string]int64 // errors, by their words without who caused them
}

// maxSaid bounds the errors that are told apart; those beyond count as one.
const maxSaid = 256

// count counts an error. Before its words stand the address and the number of a connection, which are always others.
func (t *tells) count(f string) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	f = f[strings.LastIndex(f, " - ")+1:]
	if _, known := t.said[f]; !known && len(t.said) >= maxSaid {
		f = ""
	}
	t.said[f]++
	return t.said[f]
}

// noWrite is what the server says of a frame that it could not store.
const noWrite = "JetStream failed to store a msg"

func (t *tells) Noticef(string, ...any) {}
func (t *tells) Tracef(string, ...any)  {}
func (t *tells) Debugf(f string, v ...any) {
	if strings.Contains(f, noHandshake) {
		t.Errorf(f, v...)
	}
}
func (t *tells) Warnf(f string, v ...any) {
	// what we have chosen: frames of 8 MiB, and nothing before TLS
	if !strings.HasPrefix(f, "Maximum payloads") && !strings.HasPrefix(f, "Clients that are not using") {
		t.log.Warn("bus", "says", fmt.Sprintf(f, v...))
	}
}
func (t *tells) Fatalf(f string, v ...any) { t.log.Error("bus", "says", fmt.Sprintf(f, v...)) }
func (t *tells) Errorf(f string, v ...any) {
	text := fmt.Sprintf(f, v...)
	if strings.HasPrefix(text, noWrite) && t.stuck.Swap(true) {
		return // said already
	}
	if strings.HasSuffix(text, " - authentication error") { // of one that Check was asked about it says the name too
		t.refuse(whySilent)
	}
	for words, why := range refusals {
		if strings.Contains(text, " - "+words) {
			t.refuse(why)
		}
	}
	if n := t.count(f); Seldom(n) {
		t.log.Error("bus", "says", text, "so far", n)
	}
}

var errNoKey = errors.New("a node needs a key")
