package alloc

import (
	"slices"
	"testing"
)

// Stamps become times that lie between readings of the system's clock before and after them, in their order.
func TestClock(t *testing.T) {
	a, err := New(newDevice(1<<30), Options{EventCapacity: 1000})
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.shardFor(owner{})
	if err != nil {
		t.Fatal(err)
	}
	const n = 1000
	var before, stamps, after [n]int64
	for i := range n {
		before[i] = a.clock.now()
		stamps[i] = a.stamp(s)
		after[i] = a.clock.now()
	}
	if !slices.IsSorted(stamps[:]) {
		t.Error("stamps go back")
	}
	times := a.clock.timeline()
	// ns: how far apart both clocks may be read, if the thread loses the processor in each try
	const slack = 20_000
	for i := range n {
		at := times.at(stamps[i]) - a.clock.epoch
		if at < before[i]-slack || at > after[i]+slack {
			t.Fatalf("stamp %d: at %d ns, between %d and %d", i, at, before[i], after[i])
		}
	}
	if span, whole := times.span(stamps[n-1]-stamps[0]), after[n-1]-before[0]; span > whole+slack || span < whole/2 {
		t.Errorf("the stamps span %d ns of %d", span, whole)
	}
	given := newClock(func() int64 { return 42 })
	if line := given.timeline(); given.ticking || line.at(given.now()) != 42 || line.span(7) != 7 {
		t.Error("a clock that was given is not the one that tells")
	}
}
