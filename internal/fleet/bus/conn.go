package bus

import (
	"context"
	crand "crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// DialOptions say who wants to reach which hub.
type DialOptions struct {
	URL     string // host:port or nats://host:port
	Token   Token
	Again   func() (Token, error) // reads the token anew for each attempt: the hub may have another; nil: it stays
	Node    string                // for a node: its name
	Key     string                // for a node: the file of its key, which is made if it is not there
	CA      string                // file with the authorities of the hub's certificate; "": the pin, or the machine's
	Plain   bool                  // without TLS: a hub with --insecure on this machine
	Patient bool                  // goes on trying where the hub is away
	State   func(up bool, err error)

	hub bool // see DialExternal
}

// Conn is a connection to the bus, which comes back by itself when it was lost.
type Conn struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	node string
	// place is that of who asks: a part of its subjects that it alone has, so that the hub hears each on its own.
	place string
	lost  chan struct{}
	kept  kept // of a node

	inside *Server // the hub's own, whose connection this is
	takes  bool    // frames from nodes
}

// Dial connects.
func Dial(o DialOptions) (*Conn, error) {
	place := crand.Text()
	opts, err := o.options(place)
	if err != nil {
		return nil, err
	}
	c, err := dial(o.URL, opts...)
	if err != nil {
		return nil, fmt.Errorf("reach the hub at %s: %w", o.URL, explain(err))
	}
	if c.node = o.Node; c.node == "" {
		c.place = place
		return c, nil
	}
	if err := c.hearKept(); err != nil {
		c.Close()
		return nil, fmt.Errorf("reach the hub at %s: %w", o.URL, err)
	}
	return c, nil
}

func (o DialOptions) options(place string) ([]nats.Option, error) {
	opts := []nats.Option{nats.RetryOnFailedConnect(o.Patient), nats.Timeout(dialTime)}
	if o.State != nil {
		opts = append(opts, nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { o.State(false, err) }),
			nats.ReconnectHandler(func(*nats.Conn) { o.State(true, nil) }),
			nats.ConnectHandler(func(*nats.Conn) { o.State(true, nil) }),
			nats.ReconnectErrHandler(func(_ *nats.Conn, err error) { o.State(false, explain(err)) }))
	}
	if o.Token.Creds != "" {
		return o.withCreds(opts, place)
	}
	if !o.Plain {
		conf, err := pinned(o.Token.Pin, o.CA)
		if err != nil {
			return nil, err
		}
		opts = append(opts, nats.Secure(conf), nats.TLSHandshakeFirst())
	}
	if o.Node == "" {
		return append(opts, o.as(askUser+place), nats.CustomInboxPrefix(askInbox(place))), nil
	}
	key, err := nodeKey(o.Key)
	if err != nil {
		return nil, err
	}
	public, err := key.PublicKey()
	if err != nil {
		return nil, fmt.Errorf("the node's key: %w", err)
	}
	return append(opts, nats.Name(o.Node), o.as(nodeUser+o.Node),
		nats.Nkey(public, key.Sign), nats.CustomInboxPrefix(inbox(nodeUser+token(o.Node)))), nil
}

// as is who we are, with the token as it is then.
func (o DialOptions) as(user string) nats.Option {
	return nats.UserInfoHandler(func() (string, string) {
		if o.Again != nil {
			if t, err := o.Again(); err == nil && t.Role == o.Token.Role {
				return user, t.Secret
			}
		}
		return user, o.Token.Secret
	})
}

// withCreds is for a NATS of the user's: credentials say who it is, and TLS comes after NATS's first words.
func (o DialOptions) withCreds(opts []nats.Option, place string) ([]nats.Option, error) {
	who, answers := "ask", askInbox(place)
	switch {
	case o.hub:
		who, answers = hubUser, inbox(hubUser)
	case o.Node != "":
		who = nodeUser + token(o.Node)
		answers = inbox(who)
	}
	opts = append(opts, nats.Name(who), nats.UserCredentials(o.Token.Creds), nats.CustomInboxPrefix(answers))
	conf, err := pinned("", o.CA)
	return append(opts, nats.Secure(conf)), err
}

// nodeKey reads or makes the key by which a hub knows a node again.
func nodeKey(path string) (nkeys.KeyPair, error) {
	if path == "" {
		return nil, errNoKey
	}
	dir, err := rootdir.Own(filepath.Dir(path), trust.Data)
	if err != nil {
		return nil, fmt.Errorf("the node's key: %w", err)
	}
	defer dir.Close()
	name := filepath.Base(path)
	seed, err := dir.ReadFile(name, maxToken)
	if errors.Is(err, os.ErrNotExist) {
		seed, err = makeKey(dir, name)
	}
	if err != nil {
		return nil, fmt.Errorf("the node's key: %w", err)
	}
	key, err := nkeys.FromSeed(seed)
	if err != nil {
		return nil, fmt.Errorf("the node's key %s: %w", path, err)
	}
	return key, nil
}

func makeKey(dir *rootdir.Dir, name string) ([]byte, error) {
	key, err := nkeys.CreateUser()
	if err != nil {
		return nil, fmt.Errorf("make the node's key: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("make the node's key: %w", err)
	}
	err = dir.MakeText(name, seed)
	if errors.Is(err, os.ErrExist) { // another process of this machine was first
		return dir.ReadFile(name, maxToken)
	}
	return seed, err
}

func dial(url string, opts ...nats.Option) (*Conn, error) {
	lost := make(chan struct{})
	opts = append([]nats.Option{nats.ClosedHandler(func(*nats.Conn) { close(lost) }), nats.MaxReconnects(-1),
		nats.CustomReconnectDelay(backOff), nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &Conn{nc: nc, js: js, lost: lost, kept: kept{waiting: map[string]*sent{}}}, nil
}

// backOff is the wait after so many attempts, half of it by chance: nodes that a hub has lost together come apart.
func backOff(attempts int) time.Duration {
	most := min(retryFirst<<min(max(attempts-1, 0), 16), retryMost)
	return most/2 + rand.N(most/2)
}

// serverError begins what a NATS server says of an error.
const serverError = "-ERR "

// explain says in our words why a connection failed.
func explain(err error) error {
	var plain tls.RecordHeaderError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &plain) && string(plain.RecordHeader[:]) == serverError: // before TLS there is one alone
		return remedy.Add(fmt.Errorf("%w: it has as many connections as it takes", ErrAway),
			"try again; who can reach its port without a token can hold some for seconds (docs/fleet.md)")
	case errors.As(err, &plain):
		return remedy.Add(fmt.Errorf("%w: it has no TLS", ErrRefused),
			"is that the hub's port? One with --insecure wants --insecure here too")
	case errors.Is(err, errPin):
		return remedy.Add(fmt.Errorf("%w: %w", ErrRefused, errPin),
			"that is another hub, or it was set up anew: take its new token")
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired):
		return remedy.Add(fmt.Errorf("%w: the token is not its, the node's name belongs to another machine, "+
			"or it has too many new nodes or connections just now", ErrRefused),
			"compare the token with the file that memgauge hub named; --name gives the node another name; the hub's "+
				"log and memgauge hub status say which it is, and a place is free in a minute")
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return fmt.Errorf("%w: one side wants TLS and the other has none", ErrRefused)
	case errors.Is(err, nats.ErrNoServers), errors.Is(err, nats.ErrTimeout):
		return remedy.Add(fmt.Errorf("%w: %w", ErrAway, err), "is memgauge hub running there, and the port open?")
	}
	return fmt.Errorf("%w: %w", ErrAway, err)
}

// Close ends the connection at once.
func (c *Conn) Close() { c.nc.Close() }

// Lost is closed when the connection is over and will not come back: by Close, or because the server has not understood
// us, after which nats.go tries no more.
func (c *Conn) Lost() <-chan struct{} { return c.lost }

// Up says whether it is connected now.
func (c *Conn) Up() bool { return c.nc.IsConnected() }

// Why says what kept it from being connected last; nil where it is. State is not told of every attempt: nats.go is
// silent about a reconnection that TLS or the server's first words end (nats.go, doReconnect).
func (c *Conn) Why() error {
	if c.Up() {
		return nil
	}
	return explain(c.nc.LastError())
}

// Flush waits until the hub has what was sent.
func (c *Conn) Flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	return c.nc.FlushWithContext(ctx)
}

// Place is where who asks is told apart from others: what it says to the hub comes on subjects of its own.
func (c *Conn) Place() string { return c.place }

// Ear is where it hears answers.
func (c *Conn) Ear() string { return Ear(c.place) }

// Inbox is a subject for the answers to one question.
func (c *Conn) Inbox() string { return c.nc.NewInbox() }

// Send sends a message; it arrives or not. reply may be "".
func (c *Conn) Send(subject, reply string, data []byte) error {
	err := checkSubject(subject)
	if err == nil && strings.HasPrefix(subject, answerPrefix) { // the hub's own, from its lake
		err = c.few(subject, mostEars)
	}
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	if reply != "" {
		if err := checkSubject(reply); err != nil {
			return fmt.Errorf("send: %w", err)
		}
	}
	if err := c.nc.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

// Hear calls take for every message, one after the other, until stop.
func (c *Conn) Hear(subject string, take func(Msg)) (stop func(), err error) {
	if err := checkSubject(subject); err != nil {
		return nil, fmt.Errorf("hear: %w", err)
	}
	sub, err := c.nc.Subscribe(subject, func(m *nats.Msg) {
		take(Msg{Subject: m.Subject, Reply: m.Reply, Data: m.Data})
	})
	if errors.Is(err, nats.ErrConnectionClosed) {
		err = ErrLost
	}
	if err != nil {
		return nil, fmt.Errorf("hear %s: %w", subject, err)
	}
	_ = sub.SetPendingLimits(waiting(subject))
	return func() { _ = sub.Unsubscribe() }, nil
}

// Messages that may wait for a reader, besides their bytes: an empty one takes as much memory of its own as its two
// subjects have, and 300 bytes. Those beyond are dropped, and who sent them hears nothing.
const (
	answersWait = 1 << 16 // windows of 1,000 nodes with 4 sessions each
	hellosWait  = 1 << 14 // those of all nodes at once, when a hub is there again
	flowsWait   = 1 << 13 // 16 answers of 64 sessions say 8 times a window how far they are
	framesWait  = 1 << 12 // frames: those that 1,000 nodes ship in some minutes, until they are in the stream
	othersWait  = 1 << 10 // questions: of a node 16 are answered at a time
)

// waitingBytes bounds the bytes of messages that wait where honest ones have some KiB at most.
const waitingBytes = 64 << 20

func waiting(subject string) (messages, bytes int) {
	switch {
	case strings.HasPrefix(subject, answerPrefix):
		return answersWait, maxUnread
	case strings.HasPrefix(subject, helloPrefix):
		return hellosWait, waitingBytes
	case strings.HasPrefix(subject, flowPrefix), strings.HasPrefix(subject, hubPrefix):
		return flowsWait, waitingBytes
	}
	return othersWait, waitingBytes
}

// Request asks one who answers with one message.
func (c *Conn) Request(ctx context.Context, subject string, data []byte) ([]byte, error) {
	if err := checkSubject(subject); err != nil {
		return nil, fmt.Errorf("ask: %w", err)
	}
	m, err := c.nc.RequestWithContext(ctx, subject, data)
	switch {
	case err == nil:
		return m.Data, nil
	case errors.Is(err, nats.ErrNoResponders):
		return nil, ErrNobody
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: %w", ErrAway, context.Cause(ctx))
	}
	return nil, explain(err)
}

var nodeForm = pattern.Of(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

// tokenForm is that of a name in a subject, also of the one that answers for the hub's rows.
var tokenForm = pattern.Of(`^[A-Za-z0-9_~][A-Za-z0-9_~-]{0,127}$`)

// nodeName: "all" is everybody's.
func nodeName(s string) bool { return s != everybody && nodeForm().MatchString(s) }
