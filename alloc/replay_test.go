package alloc_test

import (
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// TestWasteGenerated compares the policies on a training whose sequence lengths vary from step to step, which is hard
// on any cache of blocks. TestRecordedTrainings in internal/judge/replay checks the waste of recorded trainings.
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
		t.Logf("%s: %.1f %% over, %d driver calls for %d allocations", p, over[p], s.DriverAllocs+s.DriverFrees,
			s.Hits+s.Misses)
	}
	if over[alloc.Packed] > over[alloc.Torch]/2 || over[alloc.VMM] > over[alloc.Torch]/2 || over[alloc.Direct] > 3 {
		t.Errorf("percent over what was asked for: %v", over)
	}
}
