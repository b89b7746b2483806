package collector

import (
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/owner"
)

// TestFirstSeconds: a sample takes 2 ms of CPU time and a transaction 14, so the first 20 s may have few of them; a
// verdict on a short run needs some all the same.
func TestFirstSeconds(t *testing.T) {
	const young = 20 * time.Second
	samples, early, stores := 0, 0, 0
	for age := densest; age < young; age += sampleAfter(age, sampleEvery) {
		samples++
		if age < 2*time.Second {
			early++
		}
	}
	for age := owner.Hold(0); age < young; age += owner.Hold(age) {
		stores++
	}
	if samples > 70 || early < 15 {
		t.Errorf("%d samples in %v, %d of them in the first 2 s", samples, young, early)
	}
	if stores > 9 {
		t.Errorf("%d transactions in %v", stores, young)
	}
}
