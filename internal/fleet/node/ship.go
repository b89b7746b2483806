package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
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
	// shipLive and shipOver bound the sessions that are shipped side by side: a live one costs its collector a
	// transaction, one that is over takes a process with its memory.
	shipLive, shipOver = 8, maxApart
	// gatherTime bounds one look for rows: 32,768 of them take a second. A collector that hangs is told sooner.
	gatherTime = 5 * time.Minute
	// lastShip is for the last rows when the process ends; what is left waits in the session.
	lastShip = 5 * time.Second
)

// shipping sends the sessions' rows to the hub.
type shipping struct {
	n    *Node
	want chan struct{} // the hub wants rows: closed once

	slots map[bool]chan struct{} // of live sessions, and of those that are over
	all   sync.WaitGroup         // sessions that are being shipped

	mu     sync.Mutex
	asked  bool
	hub    outbox.Hub           // as it said last
	resent map[string]bool      // by directory: sessions that are sent again, with Resend
	busy   map[string]bool      // by directory: those
	stuck  map[string]string    // by directory: why a session's rows wait
	behind map[string]time.Time // by session: when the hub had all of it, for those that lag
	lost   map[string]map[string]int64
	why    string // why those of all do
}

func (s *shipping) init(n *Node) {
	s.n, s.want = n, make(chan struct{})
	s.behind, s.lost = map[string]time.Time{}, map[string]map[string]int64{}
	s.busy, s.stuck, s.resent = map[string]bool{}, map[string]string{}, map[string]bool{}
	s.slots = map[bool]chan struct{}{true: make(chan struct{}, shipLive), false: make(chan struct{}, shipOver)}
}

// wanted notes what the hub says. One that takes frames of another version gets none: it would drop them.
func (s *shipping) wanted(w Welcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Keeps {
		s.hub = outbox.Hub{Lake: w.Lake, Schema: w.Schema}
	}
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
	why := s.why
	for _, dir := range slices.Sorted(maps.Keys(s.stuck)) {
		why += "\n" + s.stuck[dir]
	}
	why = strings.TrimPrefix(why, "\n")
	out.Trouble, out.Waits = strings.ToValidUTF8(why[:min(len(why), maxTrouble)], ""), len(s.behind)
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
	defer s.all.Wait()
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
		if !s.round(ctx, every) {
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
	s.all.Wait()
	if s.n.o.Session != "" && s.n.conn.Up() {
		s.n.sessions.forget(s.n.o.Session) // its collector has ended
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastShip)
		defer cancel()
		s.round(ctx, lastShip)
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

// round ships what every session has, side by side, and says whether all of it went. It waits no longer than the time
// between rounds: a session that takes longer goes on, and keeps no other waiting.
func (s *shipping) round(ctx context.Context, most time.Duration) (whole bool) {
	var begun sync.WaitGroup
	list := append(s.n.sessions.targets(false), s.leftOver(s.n.o.Session)...)
	for _, t := range list {
		if !s.begins(t) {
			continue
		}
		begun.Add(1)
		s.all.Go(func() {
			defer begun.Done()
			err := s.inTurn(ctx, t)
			s.ends(ctx, t, err)
		})
	}
	done := make(chan struct{})
	s.all.Go(func() { begun.Wait(); close(done) })
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	case <-ctx.Done():
	}
	return s.whole(list)
}

// begins notes that a session is being shipped, unless it is.
func (s *shipping) begins(t ask.Target) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[t.Dir()] {
		return false
	}
	s.busy[t.Dir()] = true
	return true
}

// ends notes what came of it.
func (s *shipping) ends(ctx context.Context, t ask.Target, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, t.Dir())
	switch {
	case err == nil || errors.Is(err, outbox.ErrBusy):
		delete(s.stuck, t.Dir())
	case ctx.Err() == nil:
		why := fmt.Sprintf("session %s: %v", t.Name(), err)
		if s.stuck[t.Dir()] != why {
			s.n.o.Log.Warn("rows wait for the hub", "why", why, "hint", remedy.Of(err))
		}
		s.stuck[t.Dir()] = why
	}
}

// whole forgets the troubles of sessions that are gone, and says whether there are none of others.
func (s *shipping) whole(list []ask.Target) bool {
	here := map[string]bool{}
	for _, t := range list {
		here[t.Dir()] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.stuck, func(dir, _ string) bool { return !here[dir] && !s.busy[dir] })
	return len(s.stuck) == 0
}

// inTurn ships a session when there is room.
func (s *shipping) inTurn(ctx context.Context, t ask.Target) error {
	slot := s.slots[t.IsLive()]
	select {
	case slot <- struct{}{}:
		defer func() { <-slot }()
		return s.ship(ctx, t)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
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
		begun, done := s.begun(t.Dir())
		if t.Dir() != but && !done && (begun || t.About().Started.After(since)) && !t.IsLive() &&
			!heldElsewhere(t.Dir()) {
			out = append(out, t)
		}
	}
	return out
}

// ship sends what a session has that the hub has not.
func (s *shipping) ship(ctx context.Context, t ask.Target) (err error) {
	about := t.About()
	if _, done := s.begun(t.Dir()); done && !about.Live {
		return nil
	}
	if known, err := s.learn(ctx, t); err != nil || !known {
		if err != nil {
			s.waits(about)
		}
		return err
	}
	box, err := s.open(t)
	if err != nil {
		return err
	}
	defer box.Close()
	if !about.Live {
		// its collector may still answer, and not have stored the end yet: who opens it anew waits for that
		s.n.sessions.forget(t.Dir())
		defer s.n.sessions.forget(t.Dir())
	}
	defer func() { s.note(about.ID, box, err) }()
	if err := s.meet(t, box); err != nil {
		return err
	}
	for more := true; more || box.Waits(); {
		if err := box.Send(ctx, s.n.conn.Ship); err != nil {
			return err
		}
		if !more {
			break
		}
		if more, err = s.gather(ctx, t, box); err != nil {
			return err
		}
	}
	if !about.Live && !t.IsLive() {
		if err := box.Finish(); err != nil {
			return err
		}
	}
	if held := box.Held(); len(held) > 0 {
		return remedy.Add(fmt.Errorf("the hub does not know %s, whose rows wait", strings.Join(held, ", ")),
			"upgrade memgauge on the hub")
	}
	return nil
}

// meant is the hub that a session's rows are for, and whether all of them are to be sent again.
func (s *shipping) meant(dir string) (hub outbox.Hub, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hub, s.n.o.Resend && !s.resent[dir]
}

// begun is outbox.Begun. Of a session that is to be sent again nothing is done.
func (s *shipping) begun(dir string) (begun, done bool) {
	hub, again := s.meant(dir)
	begun, done = outbox.Begun(dir, hub)
	return begun, done && !again
}

// meet tells an outbox whose hub it is for, and the log what comes of that.
func (s *shipping) meet(t ask.Target, box *outbox.Box) error {
	dir, before := t.Dir(), box.State()
	hub, again := s.meant(dir)
	if err := box.Meet(hub, again && before.Rows > 0, t.About().Started); err != nil {
		return err
	}
	s.mu.Lock()
	s.resent[dir] = s.n.o.Resend
	s.mu.Unlock()
	if before.After > 0 && box.State().After == 0 {
		s.n.o.Log.Warn("all rows of a session are sent again: the hub has another lake, or --resend was said",
			"session", t.Name())
	}
	return nil
}

var errGather = errors.New("it has not told its rows in time")

func (s *shipping) gather(ctx context.Context, t ask.Target, box *outbox.Box) (more bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, gatherTime, errGather)
	defer cancel()
	return box.Gather(ctx, s.n.sessions.open(t, api.Reading))
}

// note remembers how far a session is. One that could not be asked has rows that wait, for all that is known.
func (s *shipping) note(id string, box *outbox.Box, err error) {
	state, waits := box.State(), box.Waits() || err != nil
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

// waits notes a session that could not be asked for its job: all that it has waits, since it began.
func (s *shipping) waits(about api.About) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, known := s.behind[about.ID]; !known {
		s.behind[about.ID] = about.Started
	}
}
