package ingest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

const none = wire.NotTaken

// script writes records from text, one a line, so that a test reads as what the trainer did:
//
//	pre NAME ALLOC [MAX]     post NAME ALLOC [MAX]     root NAME ALLOC (a root's pre)     step [heap H] [device D ALLOC]…
type script struct {
	r    *wiretest.Ring
	ts   uint64
	step uint32

	before12 bool // it is of a version before 1.2
}

func (s *script) run(lines string) {
	for line := range strings.Lines(lines) {
		if f := strings.Fields(line); len(f) > 0 {
			s.line(f)
		}
	}
}

func (s *script) line(f []string) {
	s.ts += 1000
	if f[0] == "step" {
		s.end(f[1:])
		return
	}
	t := wire.Trace{TS: s.ts, Name: s.r.Intern(f[1]), Step: s.step, Device: -1, MaxAllocated: none, Cached: 10_000,
		MaxCached: none}
	fmt.Sscan(f[2], &t.Allocated)
	if len(f) > 3 {
		fmt.Sscan(f[3], &t.MaxAllocated)
	}
	switch f[0] {
	case "root":
		t.Flags = wire.FlagRoot
	case "post":
		t.Stage = 1
	}
	s.r.Append(&t)
}

func (s *script) end(f []string) {
	for len(f) > 0 {
		switch f[0] {
		case "heap":
			h := wire.Heap{TS: s.ts, Step: s.step, GCYoung: 7, GCCount: 1, HeapHeld: none, PyBlocks: 3}
			fmt.Sscan(f[1], &h.HeapInUse)
			s.r.Append(&h)
			f = f[2:]
		case "device":
			d := wire.Device{TS: s.ts, Step: s.step, Reserved: 99, MaxAllocated: none, MaxReserved: 100}
			fmt.Sscan(f[1], &d.Device)
			fmt.Sscan(f[2], &d.Allocated)
			s.r.Append(&d)
			f = f[3:]
		}
	}
	if s.before12 {
		s.r.Append(&wire.Step{TS: s.ts, Step: s.step, Steps: 1, Flags: wire.FlagSampled, Duration: 500, RSS: 20_000,
			Anon: 9_000, MaxRSS: none})
	} else {
		s.r.Append(&wire.Host{TS: s.ts, Step: s.step, RSS: 20_000, Anon: 9_000, MaxRSS: none})
		s.r.Append(&wire.StepEnd{TS: s.ts, Step: s.step, Steps: 1, Flags: wire.FlagSampled, Duration: 500})
	}
	s.step++
}

func num(v int64) string {
	if v == model.Null {
		return "-"
	}
	return fmt.Sprint(v)
}

func (m *memory) traceText(t *testing.T) (lines []string) {
	for _, r := range m.rows.Trace {
		lines = append(lines, fmt.Sprintf("%d.%d.%d %s %s at %s took %s alloc %s max %s delta %s %s", r.Step, r.Micro,
			r.Seq, wire.Stages[r.Stage],
			m.name(t, r.Module), num(r.OffsetNS), num(r.DurationNS), num(r.Allocated), num(r.MaxAllocated),
			num(r.AllocatedDelta), num(r.MaxAllocatedDelta)))
	}
	return lines
}

func TestDerivations(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"nested, twice, recursive", `
			root net 100
			pre a 110
			post a 150
			pre a 150
			pre a 160
			post a 190
			post a 180
			post net 120
			step
			root net 100
			step`, `
			1.0.0 pre forward net at 0 took - alloc 100 max 100 delta - -
			1.0.1 pre forward a at 1000 took - alloc 110 max 110 delta - -
			1.0.2 post forward a at 2000 took 1000 alloc 150 max 150 delta 40 40
			1.0.3 pre forward a at 3000 took - alloc 150 max 150 delta - -
			1.0.4 pre forward a at 4000 took - alloc 160 max 160 delta - -
			1.0.5 post forward a at 5000 took 1000 alloc 190 max 190 delta 30 30
			1.0.6 post forward a at 6000 took 3000 alloc 180 max 190 delta 30 40
			1.0.7 post forward net at 7000 took 7000 alloc 120 max 190 delta 20 90
			2.0.0 pre forward net at 0 took - alloc 100 max 100 delta - -`},
		{"accumulation counts micro steps", `
			root net 1
			post net 2
			root net 3
			post net 4
			step`, `
			1.0.0 pre forward net at 0 took - alloc 1 max 1 delta - -
			1.0.1 post forward net at 1000 took 1000 alloc 2 max 2 delta 1 1
			1.1.2 pre forward net at 2000 took - alloc 3 max 3 delta - -
			1.1.3 post forward net at 3000 took 1000 alloc 4 max 4 delta 1 1`},
		{"an exception skips a post, an end without beginning", `
			root net 1
			pre bad 2
			post net 3
			post lone 4
			step`, `
			1.0.0 pre forward net at 0 took - alloc 1 max 1 delta - -
			1.0.1 pre forward bad at 1000 took - alloc 2 max 2 delta - -
			1.0.2 post forward net at 2000 took 2000 alloc 3 max 3 delta 2 2
			1.0.3 post forward lone at 3000 took - alloc 4 max 4 delta - -`},
		{"a peak that the kernel told stays", `
			root net 1 50
			post net 9
			step`, `
			1.0.0 pre forward net at 0 took - alloc 1 max 50 delta - -
			1.0.1 post forward net at 1000 took 1000 alloc 9 max 50 delta 8 0`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			(&script{r: g.ring(wiretest.Options{}), step: 1}).run(c.script)
			g.drain()
			want := strings.Split(strings.ReplaceAll(strings.TrimSpace(c.want), "\t", ""), "\n")
			if got := g.sink.traceText(t); !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestStepRows: rings of every version give the same rows.
func TestStepRows(t *testing.T) {
	for _, before12 := range []bool{true, false} {
		testStepRows(t, before12)
	}
}

func testStepRows(t *testing.T, before12 bool) {
	t.Helper()
	g := newRig(t)
	(&script{r: g.ring(wiretest.Options{Wall: 5_000_000, Mono: 1_000_000}), step: 1, before12: before12}).run(`
		step
		root net 9500
		step heap 77
		step device 0 10 device 1 30 device 2 20
		step`)
	g.drain()
	var got []string
	for _, s := range g.sink.rows.Steps {
		got = append(got, fmt.Sprintf("%d t=%d dev %d alloc %s/%s res %s/%s heap %s gc %s/%s", s.Step, s.Time, s.Device,
			num(s.Allocated), num(s.MaxAllocated),
			num(s.Reserved), num(s.MaxReserved), num(s.HeapInUse), num(s.GCCollections), num(s.GCFull)))
	}
	want := []string{
		"1 t=4001 dev -1 alloc 9000/- res 20000/- heap - gc -/-",
		"2 t=4003 dev -1 alloc 9000/9500 res 20000/20000 heap 77 gc 7/1",
		"3 t=4004 dev 1 alloc 30/- res 99/100 heap - gc -/-",
		"4 t=4005 dev -1 alloc 9000/- res 20000/- heap - gc -/-",
	}
	if !slices.Equal(got, want) {
		t.Errorf("before 1.2 %t: got\n%s\nwant\n%s", before12, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestHostIsOfItsStep: what was read of the host belongs to the step that its record names, and to no later one.
func TestHostIsOfItsStep(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	r.Append(&wire.Host{Step: 1, RSS: 5, Anon: 4, MaxRSS: 3})
	r.Append(&wire.StepEnd{Step: 1, Steps: 1})
	r.Append(&wire.StepEnd{Step: 2, Steps: 1})
	r.Append(&wire.Host{Step: 3, RSS: 7, Anon: 6, MaxRSS: none}) // its step has no record
	r.Append(&wire.StepEnd{Step: 4, Steps: 1})
	g.drain()
	var got []string
	for _, s := range g.sink.rows.Steps {
		got = append(got, fmt.Sprintf("%d %s %s %s", s.Step, num(s.RSS), num(s.Anon), num(s.MaxRSS)))
	}
	if want := []string{"1 5 4 5", "2 - - -", "4 - - -"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestEveryDeviceHasARow: neither the host nor another device is hidden behind the fullest one, also where a reader
// starts anew between a device's record and its step's.
func TestEveryDeviceHasARow(t *testing.T) {
	g := newRig(t)
	s := &script{r: g.ring(wiretest.Options{}), step: 1}
	s.run(`
		step heap 77 device 0 10 device 1 30
		step device 1 40 device 0 50
		step heap 78`)
	s.r.Append(&wire.Device{TS: s.ts + 1, Step: 4, Device: 2, Allocated: 7, MaxAllocated: none, Reserved: 9,
		MaxReserved: 100})
	// the later counts
	s.r.Append(&wire.Device{TS: s.ts + 1, Step: 4, Device: 2, Allocated: 8, MaxAllocated: none, Reserved: 9,
		MaxReserved: 100})
	g.drain()
	g.restart()
	s.run("step")
	g.drain()
	var got []string
	for _, d := range g.sink.rows.Devices {
		got = append(got, fmt.Sprintf("%d dev %d alloc %s/%s res %s/%s of %d", d.Step, d.Device, num(d.Allocated),
			num(d.MaxAllocated), num(d.Reserved),
			num(d.MaxReserved), d.Steps))
	}
	want := []string{"1 dev 0 alloc 10/- res 99/100 of 1", "1 dev 1 alloc 30/- res 99/100 of 1",
		"2 dev 1 alloc 40/- res 99/100 of 1",
		"2 dev 0 alloc 50/- res 99/100 of 1", "4 dev 2 alloc 8/- res 9/100 of 1"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i, s := range g.sink.rows.Steps {
		if s.Anon != 9_000 || s.RSS != 20_000 || i == 0 && s.HeapInUse != 77 {
			t.Errorf("step %d: the host's own %d, %d, %d", s.Step, s.Anon, s.RSS, s.HeapInUse)
		}
	}
}

func TestEvents(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	long := strings.Repeat("añb", 400) // 1,600 bytes; pieces cut within ñ
	r.Event(1000, "start", long, 3, -4)
	r.Event(2000, "exit", "", model.Null, 0)
	r.Append(&wire.Event{Name: 9999, TextSlots: 2, TextLen: 50})
	g.drain()
	var got []string
	for _, e := range g.sink.rows.Events {
		got = append(got, fmt.Sprintf("%s %q %s %d", e.Name, e.Text, num(e.A), e.B))
	}
	want := []string{fmt.Sprintf("start %q 3 -4", long), `exit "" - 0`, `? "…" 0 0`}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// What the agent says that it could not write is counted as dropped.
func TestLostInTheAgent(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	r.Event(1000, "lost", "threads", 3, 0)
	r.Event(2000, "lost", "threads", 4, 0)
	g.drain()
	if d := g.sink.rows.Drops; len(d) != 1 || d[0].Records != 7 || d[0].Reason != reasonCrowded {
		t.Errorf("%+v", d)
	}
}

// TestMatchesNaiveModel writes random records, drains at random moments, kills the reader at random moments (also
// between an append that failed and the next), and compares with rows that a model without state makes of all records
// at once.
func TestMatchesNaiveModel(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		g := newRig(t)
		r := g.ring(wiretest.Options{Slots: 1 << 12})
		var all []wire.Trace
		step := uint32(1)
		for ts := uint64(0); r.Head() < 3000; ts += 1 + rng.Uint64N(900) {
			switch rng.IntN(40) {
			case 0:
				r.Append(&wire.Step{TS: ts, Step: step})
				step++
			case 1:
				g.drain()
			case 2:
				g.restart()
			case 3:
				if rng.IntN(5) == 0 {
					g.sink.fail = 1
					g.in.Drain(t.Context())
					g.sink.fail = 0
				}
			case 4:
				r.Event(ts, "e", strings.Repeat("x", rng.IntN(200)), 0, 0)
			default:
				all = append(all, randomTrace(rng, r, ts, step))
				r.Append(&all[len(all)-1])
			}
		}
		g.drain()
		if want := naive(all); !slices.Equal(g.sink.numbers(), want) {
			t.Fatalf("seed %d: rows differ from the model's", seed)
		}
		for _, e := range g.sink.rows.Events {
			if strings.Trim(e.Text, "x") != "" {
				t.Fatalf("seed %d: text %q", seed, e.Text)
			}
		}
	}
}

func randomTrace(rng *rand.Rand, r *wiretest.Ring, ts uint64, step uint32) wire.Trace {
	gauge := func() uint64 {
		if rng.IntN(4) == 0 {
			return none
		}
		return rng.Uint64N(1000)
	}
	return wire.Trace{TS: ts, Step: step, Stage: uint8(rng.IntN(6)), Flags: uint8(rng.IntN(2)),
		Device: int8(rng.IntN(2)) - 1, Name: r.Intern(fmt.Sprint("m", rng.IntN(5))), Allocated: gauge(),
		MaxAllocated: gauge(), Cached: gauge(), MaxCached: gauge()}
}

// numbers are the rows without what differs between runs of one stream.
func (m *memory) numbers() []model.Trace {
	rows := slices.Clone(m.rows.Trace)
	for i := range rows {
		rows[i].Module, rows[i].PID, rows[i].Time, rows[i].Rank, rows[i].World = 0, 0, 0, 0, 0
	}
	return rows
}

// naive derives each row by searching all that came before it.
func naive(all []wire.Trace) (rows []model.Trace) {
	used := map[int]bool{}
	for i, t := range all {
		first := i
		for first > 0 && all[first-1].Step == t.Step {
			first--
		}
		row := model.Trace{Step: int64(t.Step), Seq: int32(i - first), Stage: model.Stage(t.Stage), Device: t.Device,
			OffsetNS: int64(t.TS - all[first].TS), DurationNS: model.Null, AllocatedDelta: model.Null,
			MaxAllocatedDelta: model.Null, Allocated: gauge(t.Allocated), Cached: gauge(t.Cached),
			MaxAllocated: gauge(t.MaxAllocated), MaxCached: gauge(t.MaxCached)}
		for _, p := range all[first : i+1] {
			if p.Flags&wire.FlagRoot != 0 && p.Stage == 0 {
				row.Micro++
			}
			if t.Device == -1 && p.Device == -1 {
				row.MaxAllocated = max(row.MaxAllocated, gauge(p.Allocated), gauge(p.MaxAllocated))
				row.MaxCached = max(row.MaxCached, gauge(p.Cached), gauge(p.MaxCached))
			}
		}
		row.Micro = max(row.Micro-1, 0)
		for j := i - 1; t.Stage%2 == 1 && j >= first; j-- {
			if p := all[j]; p.Stage == t.Stage-1 && p.Name == t.Name && !used[j] {
				used[j] = true
				row.DurationNS = int64(t.TS - p.TS)
				if p.Device == t.Device {
					row.AllocatedDelta = difference(row.Allocated, rows[j].Allocated)
					row.MaxAllocatedDelta = difference(row.MaxAllocated, rows[j].MaxAllocated)
				}
				break
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// A step's row says what the step was; rings of before have nothing there.
func TestKindsOfSteps(t *testing.T) {
	for _, c := range []struct {
		end    wire.StepEnd
		kind   string
		tokens int64
	}{
		{wire.StepEnd{Work: wire.NotTaken, Tokens: wire.NotTaken}, "train", model.Null},
		{wire.StepEnd{Work: wire.NotTaken, Tokens: wire.NotTaken, Flags: wire.FlagInference}, "infer", model.Null},
		{wire.StepEnd{Tokens: wire.NotTaken, Flags: wire.FlagInference}, "infer", model.Null},
		{wire.StepEnd{Work: 3, Tokens: 512}, "request", 512},
		{wire.StepEnd{Work: 99, Tokens: 1 << 60}, "", model.Null},
	} {
		g := newRig(t)
		g.ring(wiretest.Options{}).Append(&c.end)
		g.drain()
		if row := g.sink.rows.Steps[0]; row.Work != c.kind || row.Tokens != c.tokens {
			t.Errorf("%+v: kind %q, tokens %d", c.end, row.Work, row.Tokens)
		}
	}
}
