package pages

import (
	"fmt"
	"os"
	"runtime"
	"testing"
)

// TestGrow: what was written stays, whether the memory grows within its reservation, beyond it, or without one; and
// what is new is zero.
func TestGrow(t *testing.T) {
	for _, most := range []int{0, 1 << 10, 3 << 20, 64 << 20} {
		m := Memory{Most: most}
		written := 0
		for _, n := range []int{1000, 4096, 100_000, 3<<20 - 1, 3 << 20, 5 << 20, 30 << 20, 64 << 20, 70 << 20} {
			if err := m.Grow(n); err != nil {
				t.Fatal(err)
			}
			if err := m.Grow(n / 2); err != nil || m.Len() != n {
				t.Fatalf("most %d: %d bytes after growing to %d, %v", most, m.Len(), n, err)
			}
			b := As[byte](&m, n)
			for i := range written {
				if b[i] != byte(i*7+i>>11) {
					t.Fatalf("most %d, grown to %d: byte %d was lost", most, n, i)
				}
			}
			for i := written; i < n; i++ {
				if b[i] != 0 {
					t.Fatalf("most %d, grown to %d: byte %d is %d", most, n, i, b[i])
				}
				b[i] = byte(i*7 + i>>11)
			}
			written = n
		}
		m.Free()
		m.Free()
		if m.Len() != 0 {
			t.Error("it still has room")
		}
	}
}

// TestReservingCostsNothing: address space is no memory, and what is small takes no huge page.
func TestReservingCostsNothing(t *testing.T) {
	runtime.GC()
	before := resident(t)
	for range 50 {
		m := Memory{Most: 2 << 30}
		if err := m.Grow(1 << 20); err != nil {
			t.Fatal(err)
		}
		As[byte](&m, 1)[0] = 1
		defer m.Free()
	}
	if now := resident(t); now > before+20<<20 {
		t.Errorf("50 pieces with a byte each take %d KiB", (now-before)>>10)
	}
}

// TestWithoutAddressSpace: a limit of address space is no obstacle to what fits in it.
func TestWithoutAddressSpace(t *testing.T) {
	m := Memory{Most: 1 << 62} // more than any machine has: reserve fails as it does under a limit
	defer m.Free()
	for n := 1 << 10; n <= 8<<20; n *= 2 {
		if err := m.Grow(n); err != nil {
			t.Fatal(err)
		}
		b := As[byte](&m, n)
		b[n-1] = byte(n >> 10)
		if n > 1<<10 && b[n/2-1] != byte(n>>11) {
			t.Fatalf("grown to %d: lost what stood at its end", n)
		}
	}
	if err := m.Grow(1 << 61); err == nil {
		t.Error("2 EiB of memory")
	} else if b := As[byte](&m, 8<<20); b[4<<20-1] != byte(4<<10&0xff) {
		t.Error("lost what it held when it could not grow")
	}
}

// resident is the memory of this process, in bytes.
func resident(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
