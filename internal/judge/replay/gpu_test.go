package replay

import (
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// TestOnAnH100: what PyTorch 2.11 recorded on an H100 is replayed to the byte, with the peak and the driver calls that
// torch.cuda.memory_stats() told there. On devices that are too small for the recorded addresses the search for "needs"
// got one address twice.
func TestOnAnH100(t *testing.T) {
	for name, want := range map[string]struct {
		conf                        string
		peak, end, requested, calls int64
	}{
		"h100-segments.pickle.gz":   {"", 4_622_123_008, 4_123_000_832, 3_231_897_932, 115 + 26},
		"h100-expandable.pickle.gz": {"expandable_segments:True", 3_613_392_896, 3_613_392_896, 3_231_897_932, 116 + 9},
	} {
		tr, err := snapshot.ReadTrace(filepath.Join("../../../testdata/snapshots", name),
			func(with []int) (int, error) { return with[0], nil })
		if err != nil {
			t.Fatal(err)
		}
		if checked {
			continue // reading it is all that a build can do that checks everything after each operation
		}
		a, err := Advise(t.Context(), tr, want.conf, Unlimited)
		if err != nil {
			t.Fatal(err)
		}
		b := a.Base
		if b.PeakReserved != want.peak || b.EndReserved != want.end || b.PeakRequested != want.requested ||
			b.DriverCalls != want.calls || a.Off() != 0 || b.Needs < want.requested || b.Needs > want.peak {
			t.Errorf("%s: %+v", name, b)
		}
	}
}
