package agent

import (
	"testing"
	"time"
)

// TestAskingTooOften: whoever reads may ask many times at once, and then as often as the training does not notice.
// Other processes are not affected, and what is paid for is forgotten.
func TestAskingTooOften(t *testing.T) {
	a, now := asking{next: map[string]time.Time{}}, time.Now()
	for i := range askedAtOnce {
		if wait := a.may("one", now); wait != 0 {
			t.Fatalf("question %d waits %s", i, wait)
		}
	}
	if wait := a.may("one", now); wait != askedEvery {
		t.Errorf("one more waits %s", wait)
	}
	if wait := a.may("two", now); wait != 0 {
		t.Errorf("another process waits %s", wait)
	}
	if wait := a.may("one", now.Add(askedEvery)); wait != 0 {
		t.Errorf("after its time it waits %s", wait)
	}
	a.may("two", now.Add(askedEvery*(askedAtOnce+2)))
	if len(a.next) != 1 {
		t.Errorf("%d are remembered", len(a.next))
	}
}
