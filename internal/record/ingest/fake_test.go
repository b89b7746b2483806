package ingest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

// memory is a Sink that keeps rows as a database would: whole batches, processes replaced, cursors by ring.
type memory struct {
	mu      sync.Mutex
	rows    model.Batch
	procs   map[procKey]model.Process
	cursors map[uint64]model.Cursor
	fail    int // that many appends to come are refused
	appends int
	largest int
}

func newMemory() *memory {
	return &memory{procs: map[procKey]model.Process{}, cursors: map[uint64]model.Cursor{}}
}

var errFull = errors.New("disk full")

func (m *memory) Append(_ context.Context, b *model.Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail > 0 {
		m.fail--
		return errFull
	}
	m.appends++
	m.largest = max(m.largest, b.Rows())
	r := &m.rows
	r.Names = append(r.Names, b.Names...)
	r.Trace = append(r.Trace, b.Trace...)
	r.Steps = append(r.Steps, b.Steps...)
	r.Devices = append(r.Devices, b.Devices...)
	r.Events = append(r.Events, b.Events...)
	r.Overheads = append(r.Overheads, b.Overheads...)
	r.Drops = append(r.Drops, b.Drops...)
	r.Tensors, r.Objects = append(r.Tensors, b.Tensors...), append(r.Objects, b.Objects...)
	for _, p := range b.Processes {
		m.procs[procKey{p.PID, uint64(p.StartTicks)}] = p
	}
	for _, c := range b.Cursors {
		m.cursors[c.RingID] = c
	}
	return nil
}

func (m *memory) Cursors(context.Context) (map[uint64]model.Cursor, error) {
	return maps.Clone(m.cursors), nil
}

func (m *memory) Names(context.Context) ([]model.Name, error) { return m.rows.Names, nil }

func (m *memory) name(t *testing.T, id int32) string {
	t.Helper()
	for _, n := range m.rows.Names {
		if n.ID == id {
			return n.Text
		}
	}
	t.Fatalf("no name %d", id)
	return ""
}

// drops is one line for each Drop row.
func (m *memory) drops() (lines []string) {
	for _, d := range m.rows.Drops {
		lines = append(lines, fmt.Sprintf("%s: %s: %d: %s", d.Source, d.Reason, d.Records, d.Detail))
	}
	return lines
}

// rig is a rings directory, a sink and an Ingester that may be replaced.
type rig struct {
	t    *testing.T
	dir  string
	sink *memory
	in   *Ingester
	dead map[int]bool
	now  time.Time
}

func newRig(t *testing.T) *rig {
	g := &rig{t: t, dir: t.TempDir(), sink: newMemory(), dead: map[int]bool{}, now: time.UnixMicro(1_000_000)}
	g.restart()
	t.Cleanup(func() { g.in.Close() })
	return g
}

// restart is what a crash of the reader does: all but the sink is gone.
func (g *rig) restart() {
	if g.in != nil {
		g.in.Close()
	}
	g.in = New(g.dir, g.sink, Options{
		Alive: func(pid int, _ uint64) bool { return !g.dead[pid] },
		Now:   func() time.Time { return g.now },
	})
}

func (g *rig) ring(o wiretest.Options) *wiretest.Ring {
	g.t.Helper()
	if o.PID == 0 {
		o.PID, o.Start = 100, 5000
	}
	r, err := wiretest.Create(g.dir, o)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { r.Close() })
	return r
}

func (g *rig) drain() Stats {
	g.t.Helper()
	s, err := g.in.Drain(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	return s
}

// kill lets a process be seen as gone by the next drain.
func (g *rig) kill(pid int) {
	g.dead[pid] = true
	g.now = g.now.Add(2 * aliveEvery)
}

func (g *rig) files() []string {
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
