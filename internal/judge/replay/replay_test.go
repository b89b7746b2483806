package replay

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/test/env"
)

const mib = 1 << 20

func setting(t *testing.T, policy, conf string) Setting {
	t.Helper()
	s, err := NewSetting(policy, conf)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, tr *snapshot.Trace, s Setting, capacity int64) *Result {
	t.Helper()
	r, err := Run(t.Context(), tr, s, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func events(list ...snapshot.Event) snapshot.History { return snapshot.HistoryOf(list...) }

func take(addr uint64, size int64) snapshot.Event {
	return snapshot.Event{Action: snapshot.Alloc, Addr: addr, Size: size}
}

func give(addr uint64) snapshot.Event {
	return snapshot.Event{Action: snapshot.FreeCompleted, Addr: addr}
}

// An example computed by hand: PyTorch rounds 30 MiB + 1 to 32 MiB; a later 31 MiB fits into it.
func TestByHand(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(1, 30*mib+1), give(1), take(2, 31*mib), take(3, 100))}
	r := run(t, tr, setting(t, "torch", ""), 1<<40)
	if r.PeakRequested != 31*mib+100 || r.PeakReserved != 34*mib || r.DriverCalls != 2 || r.Ops != 4 || r.OOM != nil {
		t.Errorf("got %+v", *r)
	}
	d := run(t, tr, setting(t, "direct", ""), 1<<40)
	if d.PeakReserved != 31*mib+512 || d.DriverCalls != 4 {
		t.Errorf("direct: %+v", *d)
	}
}

// What a history lacks is counted: frees before an address is allocated again, and allocations before frees.
func TestLacking(t *testing.T) {
	whole := &snapshot.Trace{Events: events(take(1, mib), give(1), take(1, mib), give(1), take(1, mib))}
	none := &snapshot.Trace{Events: events(take(1, mib), take(1, mib), take(2, mib), take(1, mib), give(7))}
	for tr, want := range map[*snapshot.Trace]Lacking{whole: {}, none: {Frees: 2, Allocations: 1}} {
		if r := run(t, tr, setting(t, "torch", ""), 1<<40); r.Lacking != want {
			t.Errorf("%+v, want %+v", r.Lacking, want)
		}
	}
}

// A history that is repeated begins where it began: what it left is freed, what it freed of the opening is allocated
// again.
func TestRepeat(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(1, 30*mib), give(100), take(2, 30*mib), give(1))}
	tr.Live = []snapshot.LiveBlock{{Addr: 100, Requested: 50 * mib}, {Addr: 200, Requested: 12 * mib}}
	once := run(t, tr, setting(t, "torch", ""), 1<<40)
	r, err := Repeat(t.Context(), tr, setting(t, "torch", ""), 1<<40, 3)
	if err != nil {
		t.Fatal(err)
	}
	// the second 30 MiB lie where the 50 MiB were; they are freed before these are allocated again; so the driver is
	// called once in all
	want := []Turn{{once.PeakReserved, once.DriverCalls}, {once.PeakReserved, 0}, {once.PeakReserved, 0}}
	if !slices.Equal(r.Turns, want) || once.DriverCalls != 1 || once.PeakReserved != 92*mib {
		t.Errorf("turns %v, want %v", r.Turns, want)
	}
	if r.Ops != 3*once.Ops+2*2 || r.PeakRequested != once.PeakRequested || r.EndReserved != once.EndReserved {
		t.Errorf("once %+v, three times %+v", *once, *r)
	}
	none, err := Repeat(t.Context(), tr, setting(t, "torch", ""), 1<<40, 1)
	if err != nil || none.Ops != once.Ops || !slices.Equal(none.Turns, once.Turns) {
		t.Errorf("one turn: %+v, %v", none, err)
	}
}

// TestReplayHasAnEnd: a replay is given up when its time is over, also in the steps between two turns.
func TestReplayHasAnEnd(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(1, mib), give(1), take(2, mib))}
	set := setting(t, "torch", "")
	p := newProgram(tr, false)
	p.patience = -time.Hour
	if _, err := p.run(t.Context(), tr, set, 1<<30, 2); !errors.Is(err, errTakesLong) || remedy.Of(err) == "" {
		t.Error(err)
	}
	late := &player{program: p, out: &Result{}}
	if err := late.free(0); !errors.Is(err, errTakesLong) {
		t.Error("a free: ", err)
	}
}

// TestReplaysEndTogether: the replays of one history share a time, however many settings there are: one may take all of
// its own only where others take little.
func TestReplaysEndTogether(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(1, mib), give(1), take(2, mib))}
	p := newProgram(tr, false)
	p.spent.Store(int64(allTimes*(maxTime+time.Duration(len(p.ops))*maxTimePerOp) - time.Nanosecond))
	_, err := p.run(t.Context(), tr, setting(t, "torch", ""), 1<<30, 1)
	if !errors.Is(err, errAllTakeLong) || remedy.Of(err) == "" {
		t.Error(err)
	}
	p.spent.Store(0)
	if _, err := p.run(t.Context(), tr, setting(t, "torch", ""), 1<<30, 1); err != nil || p.spent.Load() <= 0 {
		t.Errorf("%v, %d ns", err, p.spent.Load())
	}
}

func TestOOM(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(1, 30*mib), take(2, 30*mib), give(1), take(3, 30*mib))}
	r := run(t, tr, setting(t, "torch", ""), 40*mib)
	if r.OOM == nil || r.OOM.Event != 1 || r.OOM.Size != 30*mib {
		t.Errorf("got %+v", r.OOM)
	}
}

// The curve agrees with the peaks, and begins with what the file says about the opening.
func TestOpeningAndCurve(t *testing.T) {
	tr := &snapshot.Trace{Events: events(
		snapshot.Event{Action: snapshot.SegmentFree, Addr: 0x9000_0000, Size: 20 * mib},
		take(0x7000_0000, 5*mib), snapshot.Event{Action: snapshot.SegmentAlloc, Addr: 0xa000_0000, Size: 64 * mib},
		take(0xa000_0000, 64*mib))}
	tr.Reserved = 60 * mib
	tr.Live = []snapshot.LiveBlock{{Addr: 0x7000_0000 + 5*mib, Requested: 30 * mib}}
	tr.Segments = []snapshot.Span{{Addr: 0x7000_0000, Size: 40 * mib}, {Addr: 0x9000_0000, Size: 20 * mib}}
	r := run(t, tr, setting(t, "torch", ""), 1<<40)
	if r.Curve.Bytes[0] != 40*mib || r.PeakReserved != 104*mib || r.PeakRequested != 99*mib {
		t.Errorf("torch: %+v", *r)
	}
	for _, policy := range []string{"packed", "vmm", "direct"} {
		r := run(t, tr, setting(t, policy, ""), 1<<40)
		if r.Curve.Bytes[0] < 30*mib || int64(slices.Max(r.Curve.Bytes)) != r.PeakReserved {
			t.Errorf("%s: %+v", policy, *r)
		}
	}
}

// Random histories: reserved is never below requested, and nothing is left behind at the end.
func TestRandomHistories(t *testing.T) {
	seeds, length := uint64(20), 2000
	if checked {
		seeds, length = 2, 200
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 0))
		tr := &snapshot.Trace{}
		var live []uint64
		for i := range length {
			if len(live) > 0 && r.IntN(2) == 0 {
				k := r.IntN(len(live))
				tr.Events.Add(give(live[k]))
				live = append(live[:k], live[k+1:]...)
				continue
			}
			addr := uint64(i+1) << 30
			tr.Events.Add(take(addr, 1+r.Int64N(int64(1)<<uint(r.IntN(26)))))
			live = append(live, addr)
		}
		for _, p := range alloc.Policies {
			got := run(t, tr, setting(t, string(p), ""), Unlimited)
			if got.PeakReserved < got.PeakRequested || got.OOM != nil || got.Ops != length {
				t.Errorf("seed %d, %s: %+v", seed, p, *got)
			}
		}
	}
}

func TestAdvise(t *testing.T) {
	tr := &snapshot.Trace{}
	// each round's block is a little larger than the hole that the last one left, with a small block behind it
	for i := range uint64(40) {
		tr.Events.Add(take(3*i+1, int64(40+2*i)*mib), take(3*i+2, 11*mib), give(3*i+1))
	}
	a, err := Advise(t.Context(), tr, "", Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	best := a.Trials[0]
	if best.PeakReserved >= a.Base.PeakReserved || best.Saves(&a.Base) <= 0 {
		t.Errorf("best %+v, base %+v", best, a.Base)
	}
	for _, trial := range append(a.Trials, a.Base) {
		if trial.Needs < trial.PeakRequested-page || trial.Needs > trial.PeakReserved+page {
			t.Errorf("%s needs %d, requests %d, reserves %d", trial.Setting, trial.Needs, trial.PeakRequested,
				trial.PeakReserved)
		}
	}
	tiny := &snapshot.Trace{} // less than a page: a device of none would be one without a bound
	tiny.Events.Add(take(1, 512), give(1))
	if a, err := Advise(t.Context(), tiny, "", Unlimited); err != nil || a.Base.Needs != page {
		t.Errorf("%+v, %v", a, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Advise(ctx, tr, "", Unlimited); err == nil {
		t.Error("an advice after the context's end")
	}
}

func TestRecordedConf(t *testing.T) {
	s := &snapshot.Snapshot{Settings: []snapshot.Setting{{Name: "max_split_size", Value: int64(128 * mib)},
		{Name: "expandable_segments", Value: true},
		{Name: "garbage_collection_threshold", Value: 0.8}, {Name: "release_lock_on_cudamalloc", Value: false}}}
	if got := RecordedConf(
		s.Settings); got != "max_split_size_mb:128,expandable_segments:True,garbage_collection_threshold:0.8" {
		t.Error(got)
	}
	if _, err := NewSetting("torch", RecordedConf(s.Settings)); err != nil {
		t.Error(err)
	}
	if _, err := Settings([]string{"torch", "nonsense"}, nil); err == nil {
		t.Error("an unknown policy is accepted")
	}
}

// Recorded trainings: files of MEMGAUGE_TRACES, which may not be part of the project. In a replay, PyTorch's rules
// reserve what PyTorch reserved, to the byte; the other policies keep to their share of waste if the training has a
// whole step.
func TestRecordedTrainings(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("MEMGAUGE_TRACES"), "*.trace.gz"))
	if err != nil || os.Getenv("MEMGAUGE_TRACES") == "" || len(files) == 0 {
		env.Missing(t, "traces", "MEMGAUGE_TRACES names no folder with *.trace.gz")
	}
	for _, f := range files {
		s, _, err := snapshot.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := s.Trace(0)
		if err != nil {
			t.Fatal(err)
		}
		r := run(t, tr, setting(t, "torch", ""), Unlimited)
		if r.PeakReserved != tr.Recorded.Peak || r.EndReserved != tr.Recorded.End ||
			r.DriverCalls != int64(tr.Recorded.SegmentOps) {
			t.Errorf("%s: peak %d, end %d, %d driver calls; recorded %+v", filepath.Base(f), r.PeakReserved,
				r.EndReserved, r.DriverCalls, *tr.Recorded)
		}
		for policy, most := range map[string]float64{"packed": 0.03, "vmm": 0.02} {
			r := run(t, tr, setting(t, policy, ""), Unlimited)
			t.Logf("%s, %s: waste %.4f, %d driver calls", filepath.Base(f), policy, r.Waste(), r.DriverCalls)
			if r.Waste() > most && strings.Contains(f, "fullstep") {
				t.Errorf("%s, %s: waste %.4f, more than %.3f", filepath.Base(f), policy, r.Waste(), most)
			}
		}
	}
}
