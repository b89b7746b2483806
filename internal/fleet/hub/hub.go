// Package hub is the one machine of a fleet that all others know: it carries questions and answers, remembers which
// nodes there are, and hands what nodes ship to whoever keeps it. It trusts no node: names belong to the key that came
// with them first, frames are checked whole and must speak of the node that sent them, and rows count once, by their
// numbers. It asks no session and opens no database.
package hub

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/fleet/board"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/node"
)

// Options are a hub's.
type Options struct {
	Dir      string // ours, and for this hub alone
	Listen   string // host:port
	CertFile string // the user's certificate and key; "": one of the hub's own
	KeyFile  string
	Insecure bool       // neither TLS nor tokens: loopback only
	Grant    bool       // questions that change trainings pass
	MaxDisk  int64      // bytes of frames that wait
	Keep     Keeper     // takes over what nodes ship; nil: nodes are told to keep it
	Lake     string     // where Keep keeps it, for those who ask
	LakeMax  int64      // bytes that Keep keeps, before it gives up the oldest hours; 0: no bound
	Rows     node.Rows  // answers for what Keep has kept; nil: nobody does
	Gather   bus.Gather // how frames are gathered for it
	Log      *slog.Logger

	AlertTo    AlertTo       // who is told what is found in Keep's rows
	JudgeEvery time.Duration // how often all jobs are judged by them; 0: judgeEvery

	// SharedSecrets takes files of secrets that others than their owner can read, and a directory that its group can
	// write: a cluster's volumes are so, and only the pod has them.
	SharedSecrets bool

	External External // a NATS of the user's, in place of the one inside
}

// External is a NATS of the user's.
type External struct {
	URLs     string // with commas; "": there is none
	Creds    string // file
	CA       string // file
	Replicas int    // servers that keep each frame
}

// Keeper takes rows over, such as a lake.
type Keeper interface {
	// AppendAll returns when all rows would survive the death of the process; those that came before are left out.
	// After an error the same batches come again.
	AppendAll(ctx context.Context, batches []frame.Batch) error
	// ID names what keeps the rows: nodes send all of theirs again to another. It may be "".
	ID() string
	// Counts are rows that were stored since the start, and those that were left out.
	Counts() (stored, again int64)
	// Parts names what a batch has rows in: each costs a file.
	Parts(b frame.Batch) []string
	// Refused are rows that were not kept and never will be, by reason.
	Refused() map[string]int64
	// Aside names what was set aside of what is kept, the newest of it, and how much there was before.
	Aside() (names []string, more int)
}

// Hub is a running one.
type Hub struct {
	o        Options
	dir      *rootdir.Dir
	lock     *os.File
	server   *bus.Server
	conn     *bus.Conn
	roster   *roster
	began    time.Time
	Identity Identity

	counts  counts
	shares  shares // for take alone
	told    told
	hellos  hellos // for hello alone
	askers  askers
	carrier carrier
	judging judging // where there is a keeper
	untold  error   // why others of this machine can't read where the hub is; for open and remember
}

// Identity is how others reach the hub.
type Identity struct {
	Addr string    // where it listens
	Join bus.Token // for nodes
	Ask  bus.Token // for people
}

// Names of the hub's files.
const (
	joinFile = "join.token"
	askFile  = "ask.token"
	addrFile = "hub.json"
	nodeFile = "nodes.json"
	lockFile = "hub.lock"
)

// Files tells those who ask on this machine where the hub is and how to ask it.
type Files struct {
	Addr  string `json:"addr"`
	PID   int    `json:"pid"`
	Plain bool   `json:"plain"`
	Cert  string `json:"cert,omitempty"`  // the user's certificate, which may vouch for itself
	Creds string `json:"creds,omitempty"` // the file of credentials for a NATS of the user's
}

// JoinToken is the file with the token for nodes.
func JoinToken(dir string) string { return filepath.Join(dir, joinFile) }

// AskToken is the file with the token for people.
func AskToken(dir string) string { return filepath.Join(dir, askFile) }

// Find tells of the hub in dir, alive or not.
func Find(dir string) (f Files, err error) {
	text, err := rootdir.ReadFile(filepath.Join(dir, addrFile), maxAddr)
	if errors.Is(err, os.ErrNotExist) {
		return f, remedy.Add(errors.New("there is no hub on this machine"),
			"memgauge hub starts one; host:port instead of hub asks one elsewhere")
	}
	if err == nil {
		err = json.Unmarshal(text, &f)
	}
	if err != nil {
		return f, fmt.Errorf("find the hub: %w", err)
	}
	return f, nil
}

// maxAddr bounds hub.json, in bytes: addresses and two paths.
const maxAddr = 64 << 10

// Open starts a hub. Who calls it runs and closes it.
func Open(o Options) (*Hub, error) {
	h := &Hub{o: o, began: time.Now(), hellos: hellos{}, askers: newAskers(), carrier: newCarrier()}
	h.shares = newShares(o.LakeMax, h.originOf)
	h.judging.board = board.New(h.networkOf)
	if err := h.open(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// originOf is the roster's, once it is open.
func (h *Hub) originOf(node string) (origin string, known bool) { return h.roster.origin(node) }

func (h *Hub) networkOf(node string) string {
	origin, _ := h.originOf(node)
	return origin
}

func (h *Hub) open() (err error) {
	if h.dir, err = h.o.ownDir(); err != nil {
		return err
	}
	if h.lock, err = alone(h.dir); err != nil {
		return err
	}
	if h.roster, err = openRoster(h.dir, h.o.Log); err != nil {
		return err
	}
	if h.o.External.URLs != "" {
		if err := h.openExternal(); err != nil {
			return err
		}
	} else if err := h.openServer(); err != nil {
		return err
	}
	if h.untold = h.tell(); errors.Is(h.untold, unix.ENOSPC) {
		// what nodes ask for needs no file; remember writes it when there is room
		h.o.Log.Warn("the disk is full: commands on this machine may not find the hub until it has room", "error",
			h.untold)
		return nil
	}
	return h.untold
}

// Prepare makes the hub's directory, or refuses it, before anything else is put there.
func (o Options) Prepare() error {
	dir, err := o.ownDir()
	if err != nil {
		return err
	}
	return dir.Close()
}

// ownDir opens the directory: who can put files there says who may ask.
func (o Options) ownDir() (*rootdir.Dir, error) {
	level := trust.Code
	if o.SharedSecrets {
		level = trust.Data
	}
	dir, err := rootdir.Own(o.Dir, level)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	return dir, nil
}

// openServer starts the bus inside of the hub.
func (h *Hub) openServer() error {
	cert, pin, err := h.identity()
	if err != nil {
		return err
	}
	if h.Identity.Join, err = h.keepToken(joinFile, bus.Join, pin); err != nil {
		return err
	}
	if h.Identity.Ask, err = h.keepToken(askFile, bus.Asks, pin); err != nil {
		return err
	}
	var tokens []bus.Token
	if !h.o.Insecure {
		if tokens, err = h.readTokens(); err != nil {
			return fmt.Errorf("hub: %w", err)
		}
	}
	h.server, err = bus.StartServer(bus.ServerOptions{Dir: h.dir, Shared: h.o.SharedSecrets, Addr: h.o.Listen,
		Join: h.Identity.Join, Ask: h.Identity.Ask, Cert: cert, Insecure: h.o.Insecure, MaxDisk: h.o.MaxDisk,
		Log: h.o.Log, Known: h.roster.known})
	if err != nil {
		return err
	}
	if tokens != nil {
		h.server.Take(tokens...)
	}
	h.Identity.Addr = h.server.Addr()
	if h.conn, err = h.server.Connect(); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// openExternal connects to the user's NATS, which decides who comes in.
func (h *Hub) openExternal() (err error) {
	x := h.o.External
	o := bus.DialOptions{URL: x.URLs, CA: x.CA}
	if x.Creds != "" {
		if o.Token, err = bus.ReadToken(x.Creds, h.o.SharedSecrets); err == nil && o.Token.Creds == "" {
			err = remedy.Add(fmt.Errorf("%s has no credentials for NATS", x.Creds), "it is the .creds file of a user")
		}
		if err != nil {
			return err
		}
	}
	h.Identity.Addr = x.URLs
	h.conn, err = bus.DialExternal(context.Background(), o)
	return err
}

func (h *Hub) identity() (c tls.Certificate, pin string, err error) {
	if h.o.Insecure {
		return c, "", nil
	}
	return bus.Identity(h.dir, h.o.CertFile, h.o.KeyFile)
}

// tell writes down where the hub is.
func (h *Hub) tell() error {
	text, err := json.Marshal(Files{Addr: h.Identity.Addr, PID: os.Getpid(), Plain: h.o.Insecure,
		Cert: cmp.Or(h.o.CertFile, h.o.External.CA), Creds: h.o.External.Creds})
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	if err := h.dir.ReplaceText(addrFile, append(text, '\n')); err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// alone holds the directory: two hubs over the same stream would lose what either has.
func alone(dir *rootdir.Dir) (*os.File, error) {
	f, err := dir.Edit(lockFile)
	if err != nil {
		return nil, fmt.Errorf("hub: %w", err)
	}
	if err := rootdir.TryLock(f, true); err != nil {
		f.Close()
		return nil, remedy.Add(fmt.Errorf("hub: another one has %s", dir.Path()),
			"memgauge hub status asks it; --dir gives a second one a place of its own")
	}
	return f, nil
}

// keepToken reads the token in a file, or makes it. The pin is that of the certificate that the hub has now.
func (h *Hub) keepToken(name string, role bus.Role, pin string) (bus.Token, error) {
	t, err := bus.TokenIn(h.dir, name, h.o.SharedSecrets)
	switch {
	case errors.Is(err, os.ErrNotExist):
		t = bus.NewToken(role, pin)
	case err != nil:
		return t, err
	case t.Pin == pin:
		return t, nil
	}
	t.Pin = pin
	if err := h.dir.ReplaceText(name, []byte(t.String()+"\n")); err != nil {
		return t, fmt.Errorf("hub: %w", err)
	}
	return t, nil
}

// Close ends the hub.
func (h *Hub) Close() {
	if h.conn != nil {
		h.conn.Close()
	}
	if h.server != nil {
		h.server.Close()
	}
	if h.lock != nil {
		_ = rootdir.Unlock(h.lock)
	}
	if h.dir != nil {
		h.dir.Close()
	}
}

// Run answers until ctx ends, or the connection to the bus: nobody would be answered then.
func (h *Hub) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for subject, take := range map[string]func(bus.Msg){bus.Hello(""): h.hello, bus.Former: h.former} {
		stop, err := h.conn.Hear(subject, take)
		if err != nil {
			return fmt.Errorf("hub: %w", err)
		}
		defer stop()
	}
	stop, err := h.answerAskers(ctx)
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	defer stop()
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel() // before that
	if h.o.Keep != nil {
		if err := h.makeRoom(ctx); ctx.Err() != nil {
			return nil
		} else if err != nil && !h.full() {
			return fmt.Errorf("hub: %w", err)
		} else if err != nil { // watchRoom opens it when there is room; until then frames stay with their nodes
			h.o.Log.Warn("the disk is full: nodes keep their rows until it has room", "error", err)
			h.noteStream(err)
		}
		work.Go(func() { h.consume(ctx) })
		work.Go(func() { h.watchRoom(ctx) })
		work.Go(func() { h.judge(ctx) })
	}
	return h.remember(ctx)
}

// remember writes the roster down now and then, until ctx ends or nobody hears us any more.
func (h *Hub) remember(ctx context.Context) error {
	tick := time.NewTicker(saveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			h.save()
			return nil
		case <-h.conn.Lost():
			h.save()
			return remedy.Add(fmt.Errorf("hub: %w", bus.ErrLost),
				"start it again: what was acknowledged is on its disk")
		case <-tick.C:
			h.reread()
			h.save()
		}
	}
}

func (h *Hub) save() {
	if h.untold != nil {
		h.untold = h.tell()
	}
	if err := h.roster.save(); err != nil {
		h.o.Log.Error("write the roster", "error", err)
	}
}
