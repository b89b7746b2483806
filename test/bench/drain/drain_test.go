// Package drain measures the way from rings into the database, with the real parts on both ends.
package drain

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
	"github.com/memgauge/memgauge/internal/record/ingest"
	"github.com/memgauge/memgauge/internal/record/store"
)

// A full backlog: 32 processes whose large rings are full of trace records, as a collector finds it that comes back
// late.
const (
	processes = 32
	slots     = 1 << 16
)

func BenchmarkDrainBacklog(b *testing.B) {
	runtime.GOMAXPROCS(1)
	ctx := context.Background()
	for range b.N {
		b.StopTimer()
		dir := b.TempDir()
		rings := filepath.Join(dir, "rings")
		if err := os.Mkdir(rings, 0o700); err != nil {
			b.Fatal(err)
		}
		for p := range processes {
			fill(b, rings, p)
		}
		db, err := store.Open(ctx, store.Options{Path: filepath.Join(dir, "session.duckdb"), Threads: 1, TempDir: dir})
		if err != nil {
			b.Fatal(err)
		}
		in := ingest.New(rings, db, ingest.Options{Alive: func(int, uint64) bool { return true }})
		b.StartTimer()
		before := cpu(b)
		st, err := in.Drain(ctx)
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		seconds := cpu(b) - before
		if st.Records != processes*slots {
			b.Fatalf("%d records, want %d", st.Records, processes*slots)
		}
		b.ReportMetric(float64(st.Records)/seconds, "rows/s")
		if err := in.Close(); err != nil {
			b.Fatal(err)
		}
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// cpu is the CPU time of the process in seconds: the goal is for one core, and DuckDB may use others too.
func cpu(b *testing.B) float64 {
	var ru syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru); err != nil {
		b.Fatal(err)
	}
	return float64(ru.Utime.Nano()+ru.Stime.Nano()) / 1e9
}

func fill(b *testing.B, dir string, p int) {
	r, err := wiretest.Create(dir, wiretest.Options{PID: uint32(1000 + p), Start: 1, Generation: 1, Slots: slots,
		NamesSize: 1 << 16})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	var names []uint32
	for i := range 30 {
		names = append(names, r.Intern(fmt.Sprintf("encoder.layers.%d.attention.self.query", i)))
	}
	for n := range slots {
		step := n / 60
		r.Append(&wire.Trace{TS: uint64(n) * 1000, Stage: uint8(n % 2), Device: -1, Name: names[n/2%30],
			Step: uint32(step + 1), Allocated: uint64(step)<<20 + uint64(n%60)*4096, MaxAllocated: wire.NotTaken,
			Cached: uint64(step)<<20 + 1<<30, MaxCached: wire.NotTaken})
	}
}
