package ingest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

func TestEndOfAProcess(t *testing.T) {
	for _, c := range []struct {
		end   string
		state uint64
		gone  bool
		files int // left over
	}{
		{"vanished", wire.StateLive, true, 0},
		{"exited", wire.StateClosed, true, 0},
		{"detached", wire.StateDetached, false, 0},
		{"", wire.StateLive, false, 1},
		{"", wire.StateClosed, false, 1}, // on its way out, or about to open a larger ring
	} {
		t.Run(fmt.Sprintf("%s state %d", c.end, c.state), func(t *testing.T) {
			g := newRig(t)
			r := g.ring(wiretest.Options{Wall: 9e15, Mono: 60e9,
				Info: map[string]string{"argv": "python a\tb.py", "ppid": "7", "local_rank": "x"}})
			r.SetRank(3, 8)
			r.Append(&wire.Step{TS: 61e9, Step: 1})
			g.drain()
			r.Append(&wire.Step{TS: 62e9, Step: 2})
			r.SetState(c.state)
			if c.gone {
				g.kill(100)
			}
			g.drain()
			p := g.sink.procs[procKey{100, 5000}]
			if p.End != c.end || p.Argv != "python a\tb.py" || p.PPID != 7 || p.LocalRank != -1 || p.Rank != 3 ||
				p.World != 8 {
				t.Errorf("process %+v", p)
			}
			// started 10 s before the clocks were read: 50 s of 60 s after boot
			if want := int64(9e12 - 10e6); p.Started != want {
				t.Errorf("started %d, want %d", p.Started, want)
			}
			if ended := int64(9e12 + 2e6); c.end == "" && p.Ended != model.Null || c.end != "" && p.Ended != ended {
				t.Errorf("ended %d", p.Ended)
			}
			if len(g.sink.rows.Steps) != 2 || len(g.files()) != c.files {
				t.Errorf("%d rows, files %v", len(g.sink.rows.Steps), g.files())
			}
		})
	}
}

func TestSmallRingGoesWhenALargerOneIsThere(t *testing.T) {
	g := newRig(t)
	small := g.ring(wiretest.Options{PID: 5, Start: 1})
	small.Append(&wire.Step{Step: 1})
	g.drain()
	large := g.ring(wiretest.Options{PID: 5, Start: 1, Generation: 1})
	large.SetRank(1, 2)
	large.Append(&wire.Step{Step: 2})
	small.SetState(wire.StateClosed)
	g.drain()
	if files := g.files(); !slices.Equal(files, []string{"5.1.1.ring"}) || g.sink.procs[procKey{5, 1}].Rank != 1 {
		t.Errorf("files %v, process %+v", files, g.sink.procs)
	}
	if len(g.sink.rows.Steps) != 2 {
		t.Errorf("%d rows", len(g.sink.rows.Steps))
	}
}

func TestCrashBetweenAppendAndRemoval(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	r.Append(&wire.Step{Step: 1})
	g.kill(100)
	content := bytes.Clone(r.Bytes())
	g.drain()
	if err := os.WriteFile(r.Path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	g.restart()
	g.drain()
	if len(g.files()) != 0 || len(g.sink.rows.Steps) != 1 || g.sink.procs[procKey{100, 5000}].End != endVanished {
		t.Errorf("files %v, %d rows, %+v", g.files(), len(g.sink.rows.Steps), g.sink.procs)
	}
}

func TestRingBeingMade(t *testing.T) {
	g := newRig(t)
	o := wiretest.Options{PID: 9, Start: 2}
	path := filepath.Join(g.dir, o.FileName())
	full := bytes.Clone(wiretest.New(o).Bytes())
	stages := [][]byte{{}, full[:0:0], make([]byte, 100), make([]byte, len(full)),
		append(full[:20:20], make([]byte, len(full)-20)...)}
	for i, content := range stages {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if s := g.drain(); s.Rings != 1 || s.Refused != 0 || len(g.files()) != 1 {
			t.Errorf("stage %d: %+v, files %v", i, s, g.files())
		}
	}
	g.kill(9)
	if s := g.drain(); s.Removed != 1 || len(g.files()) != 0 || len(g.sink.rows.Drops) != 0 {
		t.Errorf("after its death: %+v, files %v, drops %v", s, g.files(), g.sink.drops())
	}
}

// TestDamagedRings has one bad ring in each case, and a good one that must be read all the same; the damage is told
// once, also to the next reader.
func TestDamagedRings(t *testing.T) {
	o := wiretest.Options{PID: 9, Start: 2, Slots: 64}
	le := binary.LittleEndian
	for _, c := range []struct {
		name string
		harm func(b []byte) []byte
		want string // a part of the Drop row
	}{
		{"cut in the header", func(b []byte) []byte { return b[:200] }, ""}, // looks like one being made
		{"cut in the slots", func(b []byte) []byte { return b[:5000] },
			"damaged ring: 0: corrupt: slots end at byte 8192, file has 5000"},
		{"cut in the names", func(b []byte) []byte { return b[:9000] },
			"damaged ring: 0: corrupt: names end at byte 24576, file has 9000"},
		{"bad magic", func(b []byte) []byte { b[3] = 'x'; return b }, "damaged ring: 0: corrupt: byte 0"},
		{"newer major", func(b []byte) []byte { b[wire.OffMajor] = 2; return b },
			"newer version: 0: unsupported version: ring format 2.0; this memgauge reads 1.x"},
		{"huge slot count", func(b []byte) []byte { le.PutUint32(b[wire.OffSlotCount:], 1<<31); return b },
			"damaged ring: 0: corrupt: byte 28"},
		{"huge names", func(b []byte) []byte { le.PutUint64(b[wire.OffNamesSize:], 1<<63); return b },
			"damaged ring: 0: corrupt: names end"},
		{"another process", func(b []byte) []byte { b[wire.OffPID] = 77; return b },
			"damaged ring: 0: corrupt: byte 88"},
		{"head far ahead", func(b []byte) []byte { le.PutUint64(b[wire.OffHead:], 1<<62); return b },
			"damaged ring: 0: corrupt: byte 56: head says"},
		{"garbage in a name", func(b []byte) []byte { le.PutUint32(b[8192:], 1<<30); return b },
			"damaged names: 0: corrupt: name at byte 8192: length 1073741824 exceeds 1024"},
		{"a scribbled slot", func(b []byte) []byte { copy(b[4096+2*64:], strings.Repeat("z", 64)); return b },
			"damaged: 1: from record 2 at byte 4224"},
		{"a record of the future", func(b []byte) []byte { b[4096+2*64+16] = 200; return b },
			"unknown kind: 1: kind 200, from record 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t)
			bad := wiretest.New(o)
			for i := range uint32(5) {
				bad.Append(&wire.Trace{Step: i, Name: bad.Intern("m")})
			}
			if err := os.WriteFile(filepath.Join(g.dir, o.FileName()), c.harm(bad.Bytes()), 0o600); err != nil {
				t.Fatal(err)
			}
			g.ring(wiretest.Options{}).Append(&wire.Step{Step: 1})
			for range 3 {
				g.drain()
				g.restart()
			}
			if len(g.sink.rows.Steps) != 1 {
				t.Errorf("the good ring has %d rows", len(g.sink.rows.Steps))
			}
			drops := g.sink.drops()
			if c.want == "" && len(drops) != 0 || c.want != "" && (len(drops) != 1 ||
				!strings.HasPrefix(drops[0], o.FileName()+": "+c.want)) {
				t.Errorf("drops %q, want %q", drops, c.want)
			}
		})
	}
}

func TestHeadThatGoesBack(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	for i := range uint32(5) {
		r.Append(&wire.Step{Step: i})
	}
	g.drain()
	binary.LittleEndian.PutUint64(r.Bytes()[wire.OffHead:], 3)
	for range 3 {
		g.drain()
	}
	g.restart()
	s := g.drain()
	if d := g.sink.drops(); len(d) != 1 || !strings.Contains(d[0], "head went back from 5 to 3") || s.Refused != 1 ||
		len(g.sink.rows.Steps) != 5 {
		t.Errorf("drops %q, %+v, %d rows", d, s, len(g.sink.rows.Steps))
	}
	g.kill(100)
	g.drain()
	if len(g.files()) != 1 {
		t.Error("a damaged ring is evidence and was removed")
	}
}

func TestCutWhileOpen(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	g.drain()
	for range 100 {
		r.Append(&wire.Step{})
	}
	if err := os.Truncate(r.Path, 4096+10*64); err != nil {
		t.Fatal(err)
	}
	g.drain()
	if d := g.sink.drops(); len(d) != 1 || !strings.Contains(d[0], "file ends at byte 4736") {
		t.Errorf("drops %q", d)
	}
}

func TestStrangersAreNotRead(t *testing.T) {
	g := newRig(t)
	write := func(o wiretest.Options) string {
		path := filepath.Join(g.dir, o.FileName())
		if err := os.WriteFile(path, wiretest.New(o).Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write(wiretest.Options{PID: 1, Start: 1})
	if err := os.Symlink(write(wiretest.Options{PID: 2, Start: 1}), filepath.Join(g.dir, "3.1.0.ring")); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(g.dir, "4.1.0.ring"), 0o600); err != nil {
		t.Fatal(err)
	}
	os.WriteFile(filepath.Join(g.dir, "odd name.ring"), []byte("x"), 0o600)
	os.WriteFile(filepath.Join(g.dir, "6.1.0.ring.tmp"), []byte("not looked at"), 0o600)
	want := 3
	if os.Geteuid() == 0 {
		if err := os.Chown(write(wiretest.Options{PID: 5, Start: 1}), 12345, 12345); err != nil {
			t.Fatal(err)
		}
		want++
	}
	if s := g.drain(); s.Refused != want || len(g.sink.rows.Drops) != want {
		t.Errorf("%+v, want %d refused; drops %q", s, want, g.sink.drops())
	}
}

func TestOverwrittenAreCounted(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{Slots: 64})
	for i := range uint32(1000) {
		r.Append(&wire.Step{Step: i + 1})
	}
	s := g.drain()
	if s.Records != 64 || s.Overwritten != 936 || len(g.sink.rows.Steps) != 64 || g.sink.rows.Steps[0].Step != 937 {
		t.Errorf("%+v", s)
	}
	if d := g.sink.drops(); len(d) != 1 || !strings.HasSuffix(d[0], "overwritten: 936: records 1 to 936") {
		t.Errorf("drops %q", d)
	}
	if s := g.drain(); s.Rows != 0 {
		t.Errorf("a second drain: %+v", s)
	}
}

func TestRefusedAppendLosesNothing(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{})
	r.Append(&wire.Trace{Name: r.Intern("m"), Step: 1})
	g.sink.fail = 2
	for range 2 {
		if _, err := g.in.Drain(t.Context()); !errors.Is(err, errFull) {
			t.Fatalf("error %v", err)
		}
	}
	g.kill(100)
	g.drain()
	if len(g.sink.rows.Trace) != 1 || len(g.sink.rows.Names) != 1 || len(g.files()) != 0 {
		t.Errorf("%d rows, %d names, files %v", len(g.sink.rows.Trace), len(g.sink.rows.Names), g.files())
	}
}

func TestBatchesAreBounded(t *testing.T) {
	g := newRig(t)
	for pid := range uint32(3) {
		r := g.ring(wiretest.Options{PID: pid + 1, Start: 1, Slots: 1 << 16})
		for range 1 << 16 {
			r.Append(&wire.Trace{Step: 1, Name: r.Intern(fmt.Sprint(pid))})
		}
	}
	s := g.drain()
	if s.Records != 3<<16 || g.sink.largest > maxBatch || g.sink.appends > 4 {
		t.Errorf("%+v, largest batch %d, %d appends", s, g.sink.largest, g.sink.appends)
	}
}

func TestNewRingsAreSeenAtOnce(t *testing.T) {
	g := newRig(t)
	for pid := range uint32(20) {
		before, err := os.Stat(g.dir)
		if err != nil {
			t.Fatal(err)
		}
		r := g.ring(wiretest.Options{PID: pid + 1, Start: 1})
		r.Append(&wire.Step{})
		if pid%2 == 0 { // within the same step of the file system's clock
			os.Chtimes(g.dir, before.ModTime(), before.ModTime())
		}
		if s := g.drain(); s.Rings != int(pid)+1 || s.Records != 1 {
			t.Fatalf("ring %d: %+v", pid, s)
		}
	}
	old := time.Now().Add(-time.Hour)
	os.Chtimes(g.dir, old, old)
	if g.drain(); !g.in.listed.stable {
		t.Error("a directory that has not changed for an hour would be listed again")
	}
}

func TestFinishAsksAtOnce(t *testing.T) {
	g := newRig(t)
	g.ring(wiretest.Options{}).Append(&wire.Step{})
	g.drain()
	g.dead[100] = true
	if g.drain(); len(g.files()) != 1 {
		t.Error("Drain asked again within a second")
	}
	if _, err := g.in.Finish(t.Context()); err != nil || len(g.files()) != 0 {
		t.Errorf("error %v, files %v", err, g.files())
	}
}

// FuzzDirectory drains rings that were scribbled over: no panic, no row that was not written, nothing twice.
func FuzzDirectory(f *testing.F) {
	f.Add(uint64(1), uint16(56), uint64(1<<40))
	f.Add(uint64(2), uint16(4096+200), uint64(0))
	f.Fuzz(func(t *testing.T, seed uint64, at uint16, value uint64) {
		g := newRig(t)
		rng := rand.New(rand.NewPCG(seed, 2))
		o := wiretest.Options{PID: 9, Start: 2, Slots: 64, NamesSize: 256}
		r := g.ring(o)
		wrote := map[int64]bool{}
		for i := range rng.Uint32N(200) {
			r.Append(&wire.Step{Step: i + 1, TS: uint64(i + 1), Duration: uint64(i)})
			wrote[int64(i+1)] = true
			if rng.IntN(20) == 0 {
				g.drain()
			}
			if rng.IntN(40) == 0 && int(at) < len(r.Bytes())-8 {
				binary.LittleEndian.PutUint64(r.Bytes()[at:], value)
			}
		}
		g.drain()
		seen := map[int64]bool{}
		for _, s := range g.sink.rows.Steps {
			intact := at < wire.HeaderSize || int(at) >= wire.HeaderSize+64*wire.SlotSize
			if intact && (!wrote[s.Step] || s.DurationNS != s.Step-1) || seen[s.Step] && intact {
				t.Fatalf("row %+v was never written, or twice", s)
			}
			seen[s.Step] = true
		}
	})
}

// TestImpossibleGauges: a process may write whatever it likes into its ring. What no process can have is NULL, so that
// sums over the rows of a session are numbers, and so are quotients.
func TestImpossibleGauges(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{Slots: 256})
	for i, v := range []uint64{1, maxGauge + 1, 1 << 62, 1<<63 - 1, 1 << 63} {
		step := uint32(i + 1)
		begin, end := wire.Trace{Step: step, TS: 1 << 62, Stage: 0, Device: -1}, wire.Trace{Step: step, Stage: 1, TS: v}
		for _, x := range []*wire.Trace{&begin, &end} {
			x.Allocated, x.MaxAllocated, x.Cached, x.MaxCached = v, v, v, v
			r.Append(x)
		}
		r.Append(&wire.Device{Step: step, Allocated: v, MaxAllocated: v, Reserved: v, MaxReserved: v})
		r.Append(&wire.Host{Step: step, RSS: v, Anon: v, MaxRSS: v})
		r.Append(&wire.Heap{Step: step, HeapInUse: v, HeapHeld: v, PyBlocks: v})
		r.Append(&wire.StepEnd{Step: step, Duration: v})
		r.Append(&wire.Overhead{NS: v, Count: v, Covered: v, Gap: v})
		r.Append(&wire.Tensors{Bytes: v})
		r.Append(&wire.Objects{Length: v, Bytes: v})
	}
	g.drain()
	rows := &g.sink.rows
	if len(rows.Steps) != 5 || len(rows.Trace) != 10 || len(rows.Devices) != 5 || len(rows.Tensors) != 5 ||
		len(rows.Objects) != 5 || len(rows.Overheads) != 5 {
		t.Fatalf("%d, %d, %d, %d, %d, %d rows", len(rows.Steps), len(rows.Trace), len(rows.Devices),
			len(rows.Tensors), len(rows.Objects), len(rows.Overheads))
	}
	var times, things []int64
	for i := range rows.Steps {
		s, d, x, o, n := &rows.Steps[i], &rows.Devices[i], &rows.Overheads[i], &rows.Objects[i], &rows.Tensors[i]
		if s.Steps < 1 {
			t.Errorf("step %d stands for %d", s.Step, s.Steps)
		}
		times = append(times, s.DurationNS, x.NS, x.CoveredNS)
		things = append(things, s.RSS, s.Anon, s.MaxRSS, s.Allocated, s.MaxAllocated, s.Reserved, s.MaxReserved,
			s.HeapInUse, s.HeapHeld, s.PyBlocks, d.Allocated, d.MaxAllocated, d.Reserved, d.MaxReserved, x.Count, x.Gap,
			o.Length, o.Bytes, n.Bytes)
	}
	for i := range rows.Trace {
		x := &rows.Trace[i]
		times = append(times, x.OffsetNS, x.DurationNS)
		things = append(things, x.Allocated, x.MaxAllocated, x.Cached, x.MaxCached, x.AllocatedDelta,
			x.MaxAllocatedDelta)
	}
	for _, n := range times {
		if n != model.Null && (n < -maxNS || n > maxNS) {
			t.Errorf("%d ns", n)
		}
	}
	for _, n := range things {
		if n != model.Null && (n < -maxGauge || n > maxGauge) {
			t.Errorf("%d bytes or things", n)
		}
	}
}

// TestGapParts: what ends after a gap is not matched with what began before it, but the order within the step goes on.
func TestGapParts(t *testing.T) {
	g := newRig(t)
	r := g.ring(wiretest.Options{Slots: 8})
	s := &script{r: r, step: 1}
	s.run("root net 1")
	g.drain()
	for range 10 {
		s.run("pre a 2")
	}
	s.run("post net 3")
	g.drain()
	rows := g.sink.rows.Trace
	if last := rows[len(rows)-1]; last.DurationNS != model.Null || last.AllocatedDelta != model.Null || last.Seq != 8 ||
		len(rows) != 9 {
		t.Errorf("%d rows, last %+v", len(rows), last)
	}
}

// TestEndIsNotBeforeTheLastSignOfLife: a process that was seen alive after its last record ended later than that.
func TestEndIsNotBeforeTheLastSignOfLife(t *testing.T) {
	g := newRig(t)
	g.ring(wiretest.Options{Wall: 1e9, Mono: 1e9}).Append(&wire.Step{TS: 1e9})
	g.drain()
	g.now = g.now.Add(40 * time.Second)
	g.drain()
	seen := g.now
	g.kill(100)
	g.drain()
	if p := g.sink.procs[procKey{100, 5000}]; p.Ended != seen.UnixMicro() {
		t.Errorf("ended %d, was seen at %d", p.Ended, seen.UnixMicro())
	}
}
