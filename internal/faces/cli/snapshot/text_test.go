package snapshot

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// TestContradiction: more in blocks than is reserved is told.
func TestContradiction(t *testing.T) {
	for reserved, want := range map[int64]bool{1 << 20: true, 4 << 20: false} {
		var b strings.Builder
		peak := anatomy.Peak{Requested: 2 << 20, Allocated: 2 << 20, Reserved: reserved}
		peakText(&b, &anatomy.DeviceReport{Peak: peak})
		if got := strings.Contains(b.String(), "contradicts itself"); got != want {
			t.Errorf("%d reserved: %s", reserved, b.String())
		}
	}
}
