//go:build linux

package host_test

import (
	"errors"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/host"
)

// TestContents fills blocks under each policy and wants their contents to stay until they are freed, after others came
// and went and pages moved.
func TestContents(t *testing.T) {
	for _, p := range alloc.Policies {
		t.Run(string(p), func(t *testing.T) {
			d, err := host.New(256 << 20)
			if err != nil {
				t.Fatal(err)
			}
			a, err := alloc.New(d, alloc.Options{Policy: p})
			if err != nil {
				t.Fatal(err)
			}
			blocks := map[alloc.Ptr][]byte{}
			give := func(size int64, mark byte) alloc.Ptr {
				q, err := a.Alloc(size, 0)
				if err != nil {
					t.Fatal(err)
				}
				b := host.Bytes(q, size)
				for i := 0; i < len(b); i += 512 {
					b[i] = mark
				}
				b[len(b)-1], blocks[q] = mark, b
				return q
			}
			for i := range 60 {
				q := give(int64(1+i*i)*600, byte(i))
				if i%3 == 0 {
					delete(blocks, q)
					if err := a.Free(q); err != nil {
						t.Fatal(err)
					}
				}
				if i%20 == 19 {
					if _, err := a.EmptyCache(); err != nil {
						t.Fatal(err)
					}
				}
			}
			for q, b := range blocks {
				if b[0] != b[len(b)-1] || b[0] != b[(len(b)-1)/512*512] {
					t.Errorf("the block at %#x lost its contents", uint64(q))
				}
			}
			if _, err := a.Alloc(250<<20, 0); !errors.Is(err, alloc.ErrOutOfMemory) {
				t.Errorf("beyond the capacity: %v", err)
			}
			if err := errors.Join(a.Check(), a.Close(), d.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}
