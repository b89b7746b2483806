// Package outbox owns a session's rows on their way to the hub of a fleet. It finds those that were stored since it
// looked last, makes numbered frames of them, and remembers in the session's directory what the hub has. Whatever
// process dies when, a row travels under one number, so that whoever keeps rows can tell one that comes again: frames
// are on the disk before the first is sent, and those same bytes are sent until the hub has them all. It knows neither
// who carries frames nor where rows end up.
package outbox

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// Files in a session's directory.
const (
	stateFile = "ship.json" // what the hub has
	boxFile   = "ship.out"  // frames that are being sent, and what the state will be then
	lockFile  = "ship.lock" // held by the process that ships the session's rows
)

// State is what a hub has of a session.
type State struct {
	Node  string            `json:"node"`  // in whose name rows are numbered
	Job   string            `json:"job"`   // as of the first row
	After int64             `json:"after"` // rows with a higher table.BatchColumn were not sent
	Next  map[string]uint64 `json:"next"`  // by table: number of the next row, from 1
	Rows  int64             `json:"rows"`  // that the hub has
	At    time.Time         `json:"at"`    // what was stored before was sent
	Done  bool              `json:"done"`  // the session is over, and all of it was sent

	Lost map[string]int64 `json:"lost,omitempty"` // rows that were not sent and never will be, by reason

	Lake   string           `json:"lake,omitempty"`   // that has the rows; "": one that had no name yet
	Schema int              `json:"schema,omitempty"` // that the hub had; it knows no tables since later ones
	Held   map[string]int64 `json:"held,omitempty"`   // tables that it does not know, and After for each
}

// Hub is where rows go.
type Hub struct {
	Lake   string // its lake's name; "": it has none
	Schema int    // newest table.Table.Since that it knows; 0: as it was before hubs said so
}

// schemaUnsaid is what hubs know that do not say.
const schemaUnsaid = 10

// Box is a session's outbox.
type Box struct {
	dir     *rootdir.Dir
	session string
	lock    *os.File
	state   State
	made    *made // frames that wait, with the state after them; nil: none
	schema  int   // of the hub
}

// ErrBusy is an outbox that another process holds.
var ErrBusy = errors.New("another process ships this session's rows")

// Begun reports whether rows of the session in dir were shipped, or were about to be, and whether a hub has all that it
// takes.
func Begun(dir string, h Hub) (begun, done bool) {
	at, err := rootdir.Open(dir)
	if err != nil {
		return false, false
	}
	defer at.Close()
	s, err := readState(at)
	other := h.Lake != "" && s.Lake != "" && h.Lake != s.Lake || len(s.Held) > 0 && h.schema() > s.Schema
	return err == nil && s.Next != nil, err == nil && s.Done && !other
}

// Named reports whether rows of the session in dir were made frames of, which bear its job.
func Named(dir string) bool {
	at, err := rootdir.Open(dir)
	if err != nil {
		return false
	}
	defer at.Close()
	s, err := readState(at)
	return err != nil || len(s.Next) > 0
}

func (h Hub) schema() int { return cmp.Or(h.Schema, schemaUnsaid) }

// Open takes the outbox of the session in dir. The job stays that of its first rows; the node may get another name once
// nothing waits.
func Open(dir, session, job, node string) (b *Box, err error) {
	at, err := rootdir.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	lock, err := at.Edit(lockFile)
	if err != nil {
		at.Close()
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	b = &Box{dir: at, session: session, lock: lock, schema: table.Latest()}
	if err := rootdir.TryLock(lock, true); err != nil {
		_ = b.Close()
		return nil, ErrBusy
	}
	if b.state, err = readState(at); err == nil && b.state.Next == nil {
		b.state = State{Node: node, Job: job, Next: map[string]uint64{}, At: time.Now().UTC()}
		err = b.keep(b.state)
	}
	if err == nil {
		b.made, err = b.readBox()
	}
	if err == nil && b.state.Node != node {
		err = b.rename(node)
	}
	if err == nil && b.state.Job != job && b.made == nil && len(b.state.Next) == 0 {
		b.state.Job = job
		err = b.keep(b.state)
	}
	if err != nil {
		_ = b.Close()
		return nil, fmt.Errorf("open the outbox of %s: %w", session, err)
	}
	return b, nil
}

// Meet says whose hub gets the rows. A lake that is another than before has none of them: then, or again where that is
// wanted, all that the session still has are sent. They get new numbers, so that none is taken for one that the lake
// has. began is when the session did.
func (b *Box) Meet(h Hub, again bool, began time.Time) error {
	b.schema = h.schema()
	s := b.State()
	if h.Lake == "" {
		return nil
	}
	if again = again || s.Lake != "" && s.Lake != h.Lake; !again {
		if s.Lake == h.Lake {
			return nil
		}
		s.Lake = h.Lake
		return b.keep(s)
	}
	if b.made != nil {
		s.Next = b.made.after.Next
		if err := b.dir.Remove(boxFile); err != nil {
			return fmt.Errorf("send rows again: %w", err)
		}
		b.made = nil
	}
	return b.keep(State{Node: s.Node, Job: s.Job, Next: s.Next, At: began.UTC(), Lake: h.Lake})
}

// knows says whether the hub takes rows of a table.
func (b *Box) knows(t *table.Table) bool { return t.Since <= b.schema }

// after is up to which transaction rows of a table were sent.
func (b *Box) after(t *table.Table) int64 {
	if held, ok := b.state.Held[t.View]; ok {
		return held
	}
	return b.state.After
}

// Held names the tables whose rows wait for a hub that knows them.
func (b *Box) Held() (names []string) {
	for _, t := range table.All {
		if t.Ships() && !b.knows(t) {
			names = append(names, t.View)
		}
	}
	return names
}

// hold notes how far each table is when the rows of a round were sent.
func (b *Box) hold(s *State, upTo int64) {
	held := map[string]int64{}
	for _, t := range table.All {
		switch at := b.after(t); {
		case !t.Ships():
		case !b.knows(t):
			held[t.View] = at
		case at < s.After && upTo < s.After: // it catches up
			held[t.View] = max(at, upTo)
		}
	}
	s.Held, s.Schema = held, b.schema
	s.After = max(s.After, upTo)
}

// rename goes on in another name. Frames that wait bear the old one, in which the hub may have some of them: sent in
// another, rows would count twice.
func (b *Box) rename(node string) error {
	if b.made != nil {
		return remedy.Add(fmt.Errorf("rows were about to be sent as node %s, not as %s", b.state.Node, node),
			"memgauge node --name "+b.state.Node+" sends them")
	}
	s := b.State()
	s.Node = node
	return b.keep(s)
}

// Close lets go of it.
func (b *Box) Close() error {
	return errors.Join(rootdir.Unlock(b.lock), b.dir.Close())
}

// State tells what the hub has.
func (b *Box) State() State {
	s := b.state
	s.Next, s.Lost, s.Held = maps.Clone(s.Next), maps.Clone(s.Lost), maps.Clone(s.Held)
	return s
}

// Waits reports whether frames wait to be sent.
func (b *Box) Waits() bool { return b.made != nil }

// Send sends the frames that wait, in their order. After an error all of them are sent again: ship returns when the
// hub has a frame on its disk.
func (b *Box) Send(ctx context.Context, ship func(ctx context.Context, data []byte) error) error {
	if b.made == nil {
		return nil
	}
	f, err := b.dir.Open(boxFile)
	if err != nil {
		return fmt.Errorf("send rows: %w", err)
	}
	defer f.Close()
	for _, at := range b.made.frames {
		data := make([]byte, at.size)
		if _, err := f.ReadAt(data, at.offset); err != nil {
			return fmt.Errorf("send rows: %w", err)
		}
		if err := ship(ctx, data); err != nil {
			return fmt.Errorf("send rows: %w", err)
		}
	}
	return b.sent(b.made.after)
}

// sent makes what was sent the state.
func (b *Box) sent(after State) error {
	if err := b.keep(after); err != nil {
		return fmt.Errorf("send rows: %w", err)
	}
	b.made = nil
	if err := b.dir.Remove(boxFile); err != nil {
		return fmt.Errorf("send rows: %w", err) // it is known by its state as one that was sent
	}
	return nil
}

// Finish notes that nothing will come any more.
func (b *Box) Finish() error {
	s := b.State()
	s.Done, s.At = true, time.Now().UTC()
	return b.keep(s)
}

// Lose counts rows that will never be sent.
func (b *Box) lose(s *State, why string, rows int64) {
	if s.Lost == nil {
		s.Lost = map[string]int64{}
	}
	s.Lost[why] += rows
}

// keep makes a state durable.
func (b *Box) keep(s State) error {
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := b.dir.ReplaceText(stateFile, append(text, '\n')); err != nil {
		return err
	}
	b.state = s
	return nil
}

// maxState bounds ship.json, in bytes: some thirty tables take 2 kB.
const maxState = 1 << 20

func readState(dir *rootdir.Dir) (s State, err error) {
	text, err := dir.ReadFile(stateFile, maxState)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return State{}, fmt.Errorf("read %s: %w", stateFile, err)
	}
	return s, nil
}

// check refuses what this package has not written: numbers that begin anew would be taken for rows that come again.
func (s State) check() error {
	if s.Next == nil || s.After < 0 {
		return errors.New("it is not a state of an outbox")
	}
	h := frame.Header{Job: s.Job, Node: s.Node, Session: "s", Table: "a.b", First: 1, Count: 1}
	return h.Check()
}
