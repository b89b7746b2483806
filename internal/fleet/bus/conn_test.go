package bus

import (
	"testing"
	"time"
)

// TestBackOff: of 1,000 nodes that a hub refuses each tries a few times in half a minute, and no two at the same times.
func TestBackOff(t *testing.T) {
	tries, same := 0, 0
	for range 1000 {
		for attempt, at := 1, time.Duration(0); at < 30*time.Second; attempt++ {
			at += backOff(attempt)
			tries++
		}
		if a, b := backOff(5), backOff(5); a == b {
			same++
		}
	}
	if tries > 10_000 || same > 10 {
		t.Errorf("%d attempts in 30 s, %d pairs at the same time", tries, same)
	}
	if most := backOff(1 << 30); most > retryMost || most < retryMost/2 {
		t.Error(most)
	}
}
