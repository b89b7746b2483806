package fake

import (
	"testing"

	"github.com/memgauge/memgauge/alloc"
)

// TestAdoptedOverAHole: an address that was freed, and on which something was adopted since, is not handed out again.
func TestAdoptedOverAHole(t *testing.T) {
	d := New(Config{Capacity: 64 << 20})
	p, err := d.Alloc(4 << 20)
	if err == nil {
		err = d.Free(p, 4<<20)
	}
	if err == nil {
		err = d.Adopt(p-(2<<20), 8<<20) // as a recorded segment that lies around it
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Alloc(4 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if again+(4<<20) > p-(2<<20) && again < p+(6<<20) {
		t.Errorf("%#x lies in what was adopted at %#x", uint64(again), uint64(p-(2<<20)))
	}
	for _, piece := range []struct {
		at   alloc.Ptr
		size int64
	}{{again, 4 << 20}, {p - (2 << 20), 8 << 20}} {
		if err := d.Free(piece.at, piece.size); err != nil {
			t.Error(err)
		}
	}
}
