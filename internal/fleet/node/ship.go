package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/outbox"
)

const (
	// shipEvery is the time between looks for rows: each look has the session's collector store what it has in memory,
	// which costs a transaction of some 20 ms.
	shipEvery = 30 * time.Second
	// retryLeast and retryMost bound the waits after a frame could not be sent: a hub is away, or its disk full.
	retryLeast = time.Second
	retryMost  = 30 * time.Second
	// lastShip is for the last rows when the process ends; what is left waits in the session.
	lastShip = 5 * time.Second
)

// shipping sends the sessions' rows to the hub.
type shipping struct {
	n    *Node
	want chan struct{} // the hub wants rows: closed once

	mu     sync.Mutex
	asked  bool
	behind map[string]time.Time // by session: when the hub had all of it, for those that lag
	lost   map[string]map[string]int64
	why    string
}

func (s *shipping) init(n *Node) {
	s.n, s.want = n, make(chan struct{})
	s.behind, s.lost = map[string]time.Time{}, map[string]map[string]int64{}
}

// wanted notes what the hub says. One that takes frames of another version gets none: it would drop them.
func (s *shipping) wanted(w Welcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !w.Keeps || s.asked {
		return
	}
	if w.Frames == frame.Version {
		s.asked = true
		close(s.want)
		return
	}
	why := "the hub takes rows in an older form than this node's: upgrade memgauge on the hub"
	if w.Frames > frame.Version {
		why = "the hub takes rows in a newer form than this node's: upgrade memgauge on this node"
	}
	if why != s.why {
		s.why = why
		s.n.o.Log.Warn("rows wait for the hub", "why", why)
	}
}

// tell is what the hub is told of it.
func (s *shipping) tell() (out fanout.Shipping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Trouble, out.Waits = strings.ToValidUTF8(s.why[:min(len(s.why), maxTrouble)], ""), len(s.behind)
	for _, since := range s.behind {
		out.Behind = max(out.Behind, time.Since(since).Seconds())
	}
	for _, lost := range s.lost {
		out.Add(fanout.Shipping{Lost: lost})
	}
	return out
}

// run ships until ctx ends, and then what is left, within bounds.
func (s *shipping) run(ctx context.Context) {
	if err := s.begin(); err != nil && !errors.Is(err, outbox.ErrBusy) {
		s.n.o.Log.Warn("rows are not shipped", "why", err)
	}
	select {
	case <-s.want:
	case <-ctx.Done():
		return
	}
	every := s.n.o.Every
	if every <= 0 {
		every = shipEvery
	}
	wait, retry := every, retryLeast
	for ctx.Err() == nil {
		if err := s.round(ctx); err != nil {
			// by chance a part of it: nodes that a hub has refused together come apart
			wait, retry = min(retry/2+rand.N(retry/2), every), min(2*retry, retryMost)
		} else {
			wait, retry = every, retryLeast
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-t.C:
		}
		t.Stop()
	}
	if s.n.o.Session != "" && s.n.conn.Up() {
		s.n.sessions.forget(s.n.o.Session) // its collector has ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastShip)
		defer cancel()
		_ = s.round(ctx)
	}
}

// begin makes the outbox of the session that this node answers for: if the hub is away until the run ends, the next
// node of this machine ships it.
func (s *shipping) begin() error {
	if s.n.o.Session == "" {
		return nil
	}
	t, err := ask.At(s.n.o.Session)
	if err != nil {
		return err
	}
	box, err := s.open(t)
	if err != nil {
		return err
	}
	return box.Close()
}

func (s *shipping) open(t ask.Target) (*outbox.Box, error) {
	about := t.About()
	return outbox.Open(t.Dir(), Clean(about.ID), jobOf(t.Dir(), about.Name, s.n.o.Job).Name, s.n.o.Name)
}

// round ships what every session has.
func (s *shipping) round(ctx context.Context) (err error) {
	list := s.n.sessions.targets(false)
	for _, t := range append(list, s.leftOver(s.n.o.Session)...) {
		if e := s.ship(ctx, t); e != nil && !errors.Is(e, outbox.ErrBusy) {
			err = errors.Join(err, fmt.Errorf("session %s: %w", t.Name(), e))
		}
		if ctx.Err() != nil {
			break
		}
	}
	why := ""
	if err != nil {
		why = err.Error()
	}
	s.mu.Lock()
	other := why != s.why
	s.why = why
	s.mu.Unlock()
	if other && why != "" && ctx.Err() == nil {
		s.n.o.Log.Warn("rows wait for the hub", "why", why)
	}
	return err
}

// leftOver are finished sessions of this machine that have rows to ship: those of which some were shipped or were about
// to be, and for a node of the whole machine those that began since it became one. Older ones stay where they are.
func (s *shipping) leftOver(but string) (out []ask.Target) {
	all, err := ask.All()
	if err != nil {
		return nil
	}
	since := time.Now()
	if info, err := os.Stat(s.n.o.Dial.Key); err == nil && but == "" {
		since = info.ModTime() // the key was made when the machine became a node
	}
	for _, t := range all {
		begun, done := outbox.Begun(t.Dir())
		if t.Dir() != but && !done && (begun || t.About().Started.After(since)) && !t.IsLive() &&
			!heldElsewhere(t.Dir()) {
			out = append(out, t)
		}
	}
	return out
}

// ship sends what a session has that the hub has not.
func (s *shipping) ship(ctx context.Context, t ask.Target) error {
	about := t.About()
	if _, done := outbox.Begun(t.Dir()); done && !about.Live {
		return nil
	}
	box, err := s.open(t)
	if err != nil {
		return err
	}
	defer box.Close()
	if !about.Live {
		defer s.n.sessions.forget(t.Dir())
	}
	defer func() { s.note(about.ID, box) }()
	for more := true; more || box.Waits(); {
		if err := box.Send(ctx, s.n.conn.Ship); err != nil {
			return err
		}
		if !more {
			break
		}
		if more, err = box.Gather(ctx, s.n.sessions.open(t, api.Reading)); err != nil {
			return err
		}
	}
	if !about.Live && !t.IsLive() {
		return box.Finish()
	}
	return nil
}

// note remembers how far a session is.
func (s *shipping) note(id string, box *outbox.Box) {
	state, waits := box.State(), box.Waits()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(state.Lost) > 0 {
		s.lost[id] = maps.Clone(state.Lost)
	}
	delete(s.behind, id)
	if waits {
		s.behind[id] = state.At
	}
}
