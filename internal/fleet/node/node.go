// Package node is a machine's part in a fleet: it answers the hub's questions for the sessions of this machine. The
// sessions stay the truth: it keeps nothing of its own but its key, and a hub that is away costs it nothing. It changes
// no session, and runs no code in a training unless its owner allowed that.
package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/bus"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// Options are a node's.
type Options struct {
	Name    string          // of the node in the fleet; see frame.CheckName
	Dial    bus.DialOptions // how to reach the hub; Node, Patient and State are set here
	Version string
	Job     Job           // of sessions that don't say theirs
	Session string        // directory of the one session to answer for; "": all of this machine's user
	Allow   api.Rights    // of those that change something, what the user allows on the subjects for it
	From    Settings      // that they were made of
	Resend  bool          // send all rows of its sessions once more
	Every   time.Duration // between looks for rows to ship; 0: 30 s
	Log     *slog.Logger
	// Machine gives what is seen of this machine, as JSON; nil where nobody watches it.
	Machine func() []byte
}

// Node answers for this machine.
type Node struct {
	desk
	o        Options
	sessions sessions
	evals    api.Evals     // of all sessions: each question has a handler of its own
	greet    chan struct{} // say hello now: the hub is another, or there again

	mu    sync.Mutex
	why   string // the hub could not be reached, as it was told last
	known bool   // a hub has let us in
	leave context.CancelCauseFunc

	shipping shipping
}

const (
	helloEvery = 5 * time.Second // a node is missed after three of them
	againWait  = time.Second     // before another connection in place of one that is over for good
	// maxAnswers bounds what is answered at a time: each may hold a connection of a session's database.
	maxAnswers = 16
	// maxFollows bounds those of them that go on until nobody reads them any more.
	maxFollows = 4
	// maxWaits bounds the questions that wait for one of those, each lineTime at most: many at once are a page's.
	maxWaits = 64
	lineTime = 5 * time.Second
	// MaxJobs bounds the jobs that a node tells of; hubs take no more.
	MaxJobs = 64
	// maxTrouble bounds the words of why rows wait, in bytes; the log has all.
	maxTrouble = 512
)

// Hello is a node's word that it is there.
type Hello struct {
	Instance string   `json:"instance"`
	Host     string   `json:"host"`
	Version  string   `json:"version"`
	Jobs     []string `json:"jobs"`
	Sessions int      `json:"sessions"`
	Bye      bool     `json:"bye,omitempty"`     // it ends
	Once     bool     `json:"once,omitempty"`    // it answers for one run, and for nothing when that is over
	Refused  int64    `json:"refused,omitempty"` // questions, since it began

	fanout.Shipping
}

// Welcome is the hub's answer to it.
type Welcome struct {
	Keeps   bool   `json:"keeps"`             // whether rows are wanted
	Frames  int    `json:"frames"`            // version of the frames that it takes; 0: 1
	Schema  int    `json:"schema,omitempty"`  // the newest tables that it knows: outbox.Hub
	Lake    string `json:"lake,omitempty"`    // the name of what keeps the rows
	Pace    int    `json:"pace,omitempty"`    // messages a second that the answers of this process may have
	Refused string `json:"refused,omitempty"` // why the hub takes no notice of us
}

// Run answers until ctx ends. A hub that is away is waited for; one that refuses us is an error, unless it had let this
// process in before.
func Run(ctx context.Context, o Options) error {
	if err := frame.CheckName("node", o.Name); err != nil {
		return err
	}
	for known := false; ; {
		n := &Node{desk: newDesk(o.Name, o.Log), o: o, greet: make(chan struct{}, 1), known: known}
		n.pace = rate.NewLimiter(0, 0)
		n.keepPace(bus.LeastPace)
		err := n.run(ctx)
		if !errors.Is(err, bus.ErrLost) {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		known = !n.stranger()
		o.Log.Warn("the connection to the hub is over, making another", "why", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(againWait):
		}
	}
}

// run answers over one connection until ctx ends or it is over for good.
func (n *Node) run(ctx context.Context) error {
	n.work = n.answer
	n.sessions.n = n
	ctx, n.leave = context.WithCancelCause(ctx)
	defer n.leave(nil)
	d := n.o.Dial
	d.Node, d.Patient = n.o.Name, true
	d.State = n.state
	var err error
	if n.conn, err = bus.Dial(d); err != nil {
		return err
	}
	defer n.conn.Close()
	defer n.sessions.close()
	defer n.answers.Wait()
	defer n.leave(nil)
	stop, err := n.hear(ctx, n.subjects())
	if err != nil {
		return err
	}
	defer stop()
	n.shipping.init(n)
	var ships sync.WaitGroup
	ships.Go(func() { n.shipping.run(ctx) })
	defer ships.Wait()
	n.live(ctx, ships.Wait)
	if err := context.Cause(ctx); errors.Is(err, bus.ErrRefused) || errors.Is(err, bus.ErrLost) {
		return err
	}
	return nil
}

// state tells of a hub that comes and goes. One that refuses us from the beginning is a mistake of whoever started us;
// one that refuses us later may be set up anew, and is tried on.
func (n *Node) state(up bool, err error) {
	switch {
	case up:
		n.mu.Lock()
		n.known = true
		n.mu.Unlock()
		n.again("")
		n.o.Log.Info("connected to the hub", "node", n.o.Name)
		select {
		case n.greet <- struct{}{}:
		default:
		}
	case errors.Is(err, bus.ErrRefused) && n.stranger():
		n.leave(fmt.Errorf("reach the hub at %s: %w", n.o.Dial.URL, err))
	case err != nil && n.again(err.Error()):
		args := []any{"why", err}
		if hint := remedy.Of(err); hint != "" {
			args = append(args, "hint", hint)
		}
		n.o.Log.Warn("not connected to the hub, trying on", args...)
	}
}

// stranger says that no hub has let us in yet.
func (n *Node) stranger() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.known
}

// again says whether this is another reason than the one before: attempts are made every second, for weeks perhaps.
func (n *Node) again(why string) (other bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	other = n.why != why
	n.why = why
	return other
}

// subjects are those of the questions that this node answers, and what may be asked there.
func (n *Node) subjects() map[string]api.Rights {
	all := map[string]api.Rights{bus.Ask(""): api.Reading, bus.Ask(n.o.Name): api.Reading}
	if allow := n.o.Allow & api.Changing; allow != 0 {
		all[bus.Grant("")], all[bus.Grant(n.o.Name)] = api.Reading|allow, api.Reading|allow
	}
	return all
}

// live says hello now and then, until ctx ends and the last rows have gone.
func (n *Node) live(ctx context.Context, last func()) {
	tick := time.NewTicker(helloEvery)
	defer tick.Stop()
	lost := n.conn.Lost()
	for {
		n.hello(ctx, false)
		select {
		case <-ctx.Done():
			last()
			n.hello(context.WithoutCancel(ctx), true)
			return
		case <-lost:
			n.leave(fmt.Errorf("%w: %w", bus.ErrLost, n.conn.Why()))
			lost = nil
		case <-tick.C:
		case <-n.greet:
		}
	}
}

// hello tells the hub of us.
func (n *Node) hello(ctx context.Context, bye bool) {
	if !n.conn.Up() {
		n.state(false, n.conn.Why())
		return
	}
	host, _ := os.Hostname()
	h := Hello{Instance: n.instance, Host: host, Version: n.o.Version, Bye: bye, Once: n.o.Session != ""}
	h.Jobs, h.Sessions = n.sessions.jobs()
	h.Jobs = h.Jobs[:min(len(h.Jobs), MaxJobs)]
	h.Shipping, h.Refused = n.shipping.tell(), n.refused.Load()
	text, err := json.Marshal(h)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, helloEvery)
	defer cancel()
	answer, err := n.conn.Request(ctx, bus.Hello(n.o.Name), text)
	var w Welcome
	if err == nil {
		err = json.Unmarshal(answer, &w)
	}
	if err != nil {
		n.o.Log.Debug("hello", "error", err)
		return
	}
	if w.Refused != "" && n.again(w.Refused) {
		n.o.Log.Warn("the hub takes no notice of this node", "why", w.Refused)
	}
	n.keepPace(w.Pace)
	n.shipping.wanted(w)
}

// keepPace bounds the messages of answers to what this process may send; 0: a hub of before has not said it.
func (n *Node) keepPace(pace int) {
	pace = max(pace, bus.LeastPace)
	n.pace.SetLimit(rate.Limit(pace))
	n.pace.SetBurst(pace / 4)
}

// Name is what a machine is called where nobody says: its host's name.
func Name() (string, error) {
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the node: %w", err)
	}
	return Clean(host), nil
}

// Clean makes a name of any text: what no name has becomes '-'.
func Clean(text string) string {
	b := []byte(text)
	for i, c := range b {
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
		if !letter && (i == 0 || c != '-' && c != '.') {
			b[i] = '-'
			if i == 0 {
				b[i] = '_'
			}
		}
	}
	return string(b[:min(len(b), 100)])
}
