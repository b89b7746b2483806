package hub

import (
	"fmt"
	"testing"
	"time"
)

// TestShareOfAnAsker: one who asks too often gets no answer until its share is there again; others do, and those that
// went are forgotten.
func TestShareOfAnAsker(t *testing.T) {
	a, now := newAskers(), time.Now()
	asked := 0
	for range 10 * int(askShare.burst) {
		if a.take("flood", now) {
			asked++
		}
	}
	if asked != int(askShare.burst) || !a.take("other", now) {
		t.Errorf("%d passed of one, and then none of another", asked)
	}
	if a.take("flood", now) || !a.take("flood", now.Add(time.Minute)) {
		t.Error("the share does not come back")
	}
	for i := range maxNodes {
		a.take(fmt.Sprint(i), now.Add(time.Hour))
	}
	a.take("one more", now.Add(2*time.Hour))
	if len(a.all) > 2 {
		t.Errorf("%d are remembered", len(a.all))
	}
}
