package alloc_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/internal/snapshot"
	"github.com/memgauge/memgauge/test/env"
)

// traces returns recorded trainings: files of MEMGAUGE_TRACES, which may not be part of the project.
func traces(t *testing.T) map[string]*snapshot.Trace {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("MEMGAUGE_TRACES"), "*.trace.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("MEMGAUGE_TRACES") == "" || len(files) == 0 {
		env.Missing(t, "traces", "MEMGAUGE_TRACES names no folder with *.trace.gz")
	}
	out := map[string]*snapshot.Trace{}
	for _, f := range files {
		s, _, err := snapshot.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := s.Trace(0)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(filepath.Base(f), ".trace.gz")] = tr
	}
	return out
}

var eventKinds = map[snapshot.Action]alloc.EventKind{
	snapshot.Alloc: alloc.EventAlloc, snapshot.FreeCompleted: alloc.EventFreed,
	snapshot.SegmentAlloc: alloc.EventSegmentAlloc, snapshot.SegmentFree: alloc.EventSegmentFree,
}

// replay does what the trace did, and checks the state after every operation where the build does so.
func replay(t *testing.T, tr *snapshot.Trace, o alloc.Options) alloc.Stats {
	t.Helper()
	d := fake.New(fake.Config{})
	a, err := alloc.New(d, o)
	if err != nil {
		t.Fatal(err)
	}
	var live, history []alloc.Event
	for _, b := range tr.Live {
		live = append(live, alloc.Event{Addr: b.Addr, Size: b.Requested, Stream: alloc.Stream(b.Stream)})
	}
	for _, e := range tr.Events {
		if kind, ok := eventKinds[e.Action]; ok {
			history = append(history, alloc.Event{Kind: kind, Addr: e.Addr, Size: e.Size, Stream: alloc.Stream(e.Stream)})
		}
	}
	at := map[uint64]alloc.Ptr{}
	give := func(e alloc.Event) {
		p, err := a.Alloc(e.Size, e.Stream)
		if err != nil {
			t.Fatal(err)
		}
		at[e.Addr] = p
	}
	if o.Policy == alloc.Torch && !o.ExpandableSegments {
		if err := a.Restore(alloc.InferSegments(live, history, tr.Reserved)); err != nil {
			t.Fatal(err)
		}
		for _, e := range live {
			at[e.Addr] = alloc.Ptr(e.Addr)
		}
	} else {
		for _, e := range live {
			give(e)
		}
	}
	for _, e := range history {
		switch e.Kind {
		case alloc.EventAlloc:
			give(e)
		case alloc.EventFreed:
			if err := a.Free(at[e.Addr]); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	s := a.Stats()
	if err := a.Close(); err != nil || d.Used() != 0 || len(d.Faults()) != 0 {
		t.Fatalf("closed with %d bytes in use: %v %v", d.Used(), err, d.Faults())
	}
	return s
}

// TestTorchByteExact holds the policy torch to what PyTorch itself reserved in recorded trainings, to the byte.
func TestTorchByteExact(t *testing.T) {
	for name, tr := range traces(t) {
		s := replay(t, tr, alloc.Options{Policy: alloc.Torch})
		if s.ReservedBytes.All.Peak != tr.Recorded.Peak {
			t.Errorf("%s: %d bytes reserved at most, PyTorch %d (%+.3f %%)", name, s.ReservedBytes.All.Peak, tr.Recorded.Peak,
				100*(float64(s.ReservedBytes.All.Peak)/float64(tr.Recorded.Peak)-1))
		}
	}
}

// TestWaste holds the other policies to their share of waste on trainings with a whole step.
func TestWaste(t *testing.T) {
	for name, tr := range traces(t) {
		for policy, most := range map[alloc.Policy]float64{alloc.VMM: 2, alloc.Packed: 3} {
			s := replay(t, tr, alloc.Options{Policy: policy})
			over := 100 * (float64(s.ReservedBytes.All.Peak)/float64(s.UsedBytes.All.Peak) - 1)
			t.Logf("%s %s: %.2f %% over, %d driver calls", name, policy, over, s.DriverAllocs+s.DriverFrees)
			if over > most && strings.Contains(name, "fullstep") {
				t.Errorf("%s %s: %.2f %% over what was asked for, more than %.1f", name, policy, over, most)
			}
		}
	}
}

// TestWasteGenerated is TestWaste where no recorded training is at hand: sequence lengths vary from step to step, which is
// hard on any cache of blocks.
func TestWasteGenerated(t *testing.T) {
	ops := training(9, 24, 12)
	over := map[alloc.Policy]float64{}
	for _, p := range alloc.Policies {
		d := fake.New(fake.Config{})
		a, err := alloc.New(d, alloc.Options{Policy: p})
		if err != nil {
			t.Fatal(err)
		}
		run(t, a, d, ops, nil)
		s := a.Stats()
		over[p] = 100 * (float64(s.ReservedBytes.All.Peak)/float64(s.UsedBytes.All.Peak) - 1)
		t.Logf("%s: %.1f %% over, %d driver calls for %d allocations", p, over[p], s.DriverAllocs+s.DriverFrees, s.Hits+s.Misses)
	}
	if over[alloc.Packed] > over[alloc.Torch]/2 || over[alloc.VMM] > over[alloc.Torch]/2 || over[alloc.Direct] > 3 {
		t.Errorf("percent over what was asked for: %v", over)
	}
}
