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

// TestMapsArePaidFor: a job that grows all the time has its maps read as often as their cost allows, and no less often
// than that of any other.
func TestMapsArePaidFor(t *testing.T) {
	for _, took := range []time.Duration{0, 5 * time.Millisecond, 70 * time.Millisecond, time.Second} {
		spent, age, last := time.Duration(0), 500*time.Millisecond, time.Duration(0)
		for age < 10*time.Second {
			spent, last = spent+took, age
			age += max(classesAfter(age, took), firstLook)
		}
		if most := 10*time.Second/classesShare + took; spent > most {
			t.Errorf("readings of %s took %s in 10 s, more than %s", took, spent, most)
		}
		if took <= 70*time.Millisecond && last < 5*time.Second {
			t.Errorf("readings of %s: the last of the first 10 s came at %s", took, last)
		}
	}
}
