package quota

import (
	"fmt"
	"testing"
)

// TestFloodGivesWay: ten thousand names of one origin take no more than there is, and nobody else's: neither that of
// another origin, however much it has, nor the little that a sender has beside them.
func TestFloodGivesWay(t *testing.T) {
	q := New(1_000_000, 10_000)
	q.Set("large", "honest", 200_000)
	q.Set("small", "flood", 100)
	gone := map[string]bool{}
	for i := range 10_000 {
		q.Set(fmt.Sprint("x", i), "flood", int64(1000+i%500))
		for _, name := range q.Yield() {
			gone[name] = true
		}
		if q.Sum() > 1_000_000 {
			t.Fatalf("%d after %d names", q.Sum(), i)
		}
	}
	if len(gone) < 9000 || gone["large"] || gone["small"] || q.Has("large") != 200_000 || q.Has("small") != 100 {
		t.Errorf("%d gave way: large %v, small %v", len(gone), gone["large"], gone["small"])
	}
	sum := int64(0)
	for _, h := range q.of {
		sum += h.has
	}
	if sum != q.Sum() {
		t.Errorf("%d, not %d", q.Sum(), sum)
	}
}

// TestNobodyYields where there is room, and nothing is counted of who has nothing any more.
func TestNobodyYields(t *testing.T) {
	q := New(100, 10)
	for _, has := range []int64{50, 100, 0, -5, 100} {
		if q.Set("a", "", has); len(q.Yield()) > 0 || q.Sum() != max(has, 0) || q.Has("a") != max(has, 0) {
			t.Errorf("%d: %d of %d", has, q.Has("a"), q.Sum())
		}
	}
	if q.Set("b", "", 1); len(q.Yield()) != 1 || q.Has("a") != 0 || q.Has("b") != 1 {
		t.Error("the one that has most stays")
	}
}

// TestMoreSendersThanThereMayBe: the bound holds, and of equals the oldest stay.
func TestMoreSendersThanThereMayBe(t *testing.T) {
	q := New(100, 10)
	for i := range 1000 {
		q.Set(fmt.Sprint(i), fmt.Sprint(i/500), 10)
		q.Yield()
	}
	if q.Sum() > 100 || q.Has("0") == 0 {
		t.Errorf("%d, the first has %d", q.Sum(), q.Has("0"))
	}
}
