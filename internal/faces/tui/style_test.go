package tui

import (
	"math"
	"testing"
)

// TestBarOfAnyShare: a share may be of numbers that another machine has said.
func TestBarOfAnyShare(t *testing.T) {
	for _, share := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 0.5, 2} {
		if got := width(bar(share, 8)); got != 8 {
			t.Errorf("%g: %d cells", share, got)
		}
	}
}
