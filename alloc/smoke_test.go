package alloc_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

var traceDir = os.Getenv("MEMGAUGE_TRACES")

func TestSmoke(t *testing.T) {
	for _, p := range alloc.Policies {
		d := fake.New(fake.Config{})
		a, err := alloc.New(d, alloc.Options{Policy: p, EventCapacity: 1000})
		if err != nil {
			t.Fatal(err)
		}
		var ptrs []alloc.Ptr
		for i := range int64(200) {
			x, err := a.Alloc(1+i*i*i*77, alloc.Stream(i%3))
			if err != nil {
				t.Fatal(err)
			}
			ptrs = append(ptrs, x)
			if err := a.Check(); err != nil {
				t.Fatal(p, err)
			}
		}
		for i, x := range ptrs {
			if i%2 == 0 {
				if err := a.Free(x); err != nil {
					t.Fatal(err)
				}
				if err := a.Check(); err != nil {
					t.Fatal(p, err)
				}
			}
		}
		st := a.Stats()
		t.Logf("%s %+v", p, st.ReservedBytes.All)
		if err := a.Free(ptrs[0]); err == nil {
			t.Fatal("double free")
		} else {
			t.Log(err)
		}
		if len(a.Snapshot().Events) == 0 {
			t.Fatal("no events")
		}
		if _, err := a.Alloc(79<<30, 0); err == nil {
			t.Fatal("no OOM")
		} else {
			t.Log(err)
		}
		if err := a.Close(); err != nil || d.Used() != 0 || d.Faults() != nil {
			t.Fatal(err, d.Used(), d.Faults())
		}
	}
}

func TestTracesRaw(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(traceDir, "*full*.gz"))
	for _, f := range files {
		for _, pol := range []alloc.Policy{alloc.Torch, alloc.Packed, alloc.VMM} {
			fd, _ := os.Open(f)
			zr, _ := gzip.NewReader(fd)
			sc := bufio.NewScanner(zr)
			a, err := alloc.New(fake.New(fake.Config{}), alloc.Options{Policy: pol})
			if err != nil {
				t.Fatal(err)
			}
			m := map[string]alloc.Ptr{}
			for sc.Scan() {
				var kind, addr string
				var size int64
				n, _ := fmt.Sscan(sc.Text(), &kind, &addr, &size)
				if n < 3 {
					continue
				}
				switch kind {
				case "alloc", "live":
					p, err := a.Alloc(size, 0)
					if err != nil {
						t.Fatal(err)
					}
					m[addr] = p
				case "free":
					if err := a.Free(m[addr]); err != nil {
						t.Fatal(err)
					}
				}
			}
			st := a.Stats()
			t.Logf("%s %s requested %d reserved %d over %.2f%% driver %d", filepath.Base(f), pol, st.UsedBytes.All.Peak, st.ReservedBytes.All.Peak,
				100*(float64(st.ReservedBytes.All.Peak)/float64(st.UsedBytes.All.Peak)-1), st.DriverAllocs)
		}
	}
}
