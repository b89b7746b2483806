package collector

import (
	"testing"
	"time"
)

// TestPause: looks come at once while a training is young, as many as what is saved up for them pays, take a small part
// of a core in the long run however much each costs, and never stop.
func TestPause(t *testing.T) {
	for _, each := range []time.Duration{20 * time.Millisecond, 200 * time.Millisecond, 5 * time.Second} {
		var spent, age time.Duration
		looks, soon := 0, 0
		for age < time.Hour {
			spent += each
			looks++
			if age < 3*time.Second {
				soon++
			}
			age += max(lookAfter(spent, age), firstLook) + each
		}
		const enough = 4 // one each third of the age
		if paid := min(enough, int(lookSaved/each)+1); soon < paid {
			t.Errorf("looks of %v: %d in the first 3 s, %d are paid for", each, soon, paid)
		}
		if each <= time.Second && spent > time.Hour/lookShare+lookSaved+each {
			t.Errorf("looks of %v took %v of an hour", each, spent)
		}
		if looks < int(time.Hour/(rarest+each)) {
			t.Errorf("looks of %v: only %d in an hour", each, looks)
		}
	}
}
