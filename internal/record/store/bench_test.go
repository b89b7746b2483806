package store

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

const perStep = 400 // rows of a step in generated traces: 199 modules and an optimizer, in and out

// moduleNames are like those of a transformer.
func moduleNames() (names []model.Name) {
	parts := []string{"mlp.fc1", "mlp.fc2", "self_attn.q_proj", "self_attn.k_proj", "attention.out", "norm1", "norm2",
		"dropout", "mlp", "self_attn"}
	for i := range perStep/2 - 1 {
		names = append(names, model.Name{ID: int32(i + 1), Text: fmt.Sprintf("layers.%d.%s", i/10, parts[i%10])})
	}
	return append(names, model.Name{ID: perStep / 2, Text: "AdamW"})
}

// noise is a number that looks random but is the same in every run.
func noise(i int64) int64 {
	x := uint64(i)*0x9E3779B97F4A7C15 + 1
	x ^= x >> 31
	x *= 0xBF58476D1CE4E5B9
	return int64(x >> 40)
}

// traceRow is row i of a generated trace of a training on a GPU (device 0) or without (-1): memory rises through the
// forward pass and falls again, with a leak of a page or two a step.
func traceRow(i int64, dev int8) model.Trace {
	j := i % perStep
	step := i/perStep + 1
	hill := min(j, perStep-j)
	r := model.Trace{
		Time: 1_700_000_000_000_000 + step*33_000 + j*80 + noise(i)%40, PID: 4000, Rank: 0, World: 1,
		Step: step, Seq: int32(j), Module: int32(j/2 + 1), Stage: model.Stage(j % 2), Device: dev,
		AllocatedDelta: model.Null, MaxAllocatedDelta: model.Null, OffsetNS: j*80_000 + noise(i)%25_000,
		DurationNS: model.Null,
	}
	if j >= perStep-2 {
		r.Stage += 2 // the optimizer
	}
	unit, jitter := int64(512), noise(j)%500 // a GPU's allocator does the same in each step
	if dev < 0 {
		unit, jitter = 4096, noise(i)%2000
	}
	r.Allocated = 500<<20 + hill*1_536_000/unit*unit + jitter*unit + step*unit
	r.MaxAllocated = r.Allocated + (j%7)*unit
	r.Cached = r.Allocated>>21<<21 + 30<<20
	r.MaxCached = 900<<20 + step/100<<21
	if j%2 == 1 {
		r.AllocatedDelta = (noise(i)%1000 - 500) * unit
		r.MaxAllocatedDelta = (noise(j) % 1000) * unit
		r.DurationNS = 10_000 + noise(i+1)%40_000
	}
	return r
}

// fillTrace appends n rows in batches.
func fillTrace(t testing.TB, db *DB, n, batch int64, dev int8) {
	t.Helper()
	b := model.Batch{Names: moduleNames()}
	for i := int64(0); i < n; {
		for range min(batch, n-i) {
			b.Trace = append(b.Trace, traceRow(i, dev))
			i++
		}
		b.Cursors = append(b.Cursors, model.Cursor{RingID: 7, File: "4000.1.1.ring", Seq: uint64(i)})
		add(t, db, &b)
		b.Reset()
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, batch := range []int64{4096, 65536, 122880, 245760, 983040} {
		b.Run(fmt.Sprint(batch), func(b *testing.B) {
			const n = 1 << 21
			var all []model.Trace
			for i := range int64(n) {
				all = append(all, traceRow(i, -1))
			}
			for b.Loop() {
				db := open(b, Options{Threads: 1})
				add(b, db, &model.Batch{Names: moduleNames()})
				start, cpu := time.Now(), cpuTime()
				for i := int64(0); i < n; i += batch {
					add(b, db, &model.Batch{Trace: all[i:min(n, i+batch)],
						Cursors: []model.Cursor{{RingID: 7, Seq: uint64(i)}}})
				}
				b.ReportMetric(n/time.Since(start).Seconds(), "rows/s")
				b.ReportMetric(n/(cpuTime()-cpu).Seconds(), "rows/cpu-s")
				db.Close()
			}
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkBytesPerRow(b *testing.B) {
	for name, dev := range map[string]int8{"cuda": 0, "cpu": -1} {
		b.Run(name, func(b *testing.B) {
			const n = 1 << 21
			for b.Loop() {
				db := open(b, Options{})
				fillTrace(b, db, n, 65536, dev)
				if err := db.Checkpoint(context.Background()); err != nil {
					b.Fatal(err)
				}
				used := ask(b, db,
					"SELECT (used_blocks * block_size)::BIGINT FROM pragma_database_size() WHERE database_name = 'session'")[0][0].(int64)
				st, err := os.Stat(db.o.Path)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(used)/n, "B/row")
				b.ReportMetric(float64(st.Size())/n, "file-B/row")
			}
		})
	}
}

// BenchmarkSeeds10M runs every statement that must run on 10 M rows, warm, and prints the best of three, in ms.
func BenchmarkSeeds10M(b *testing.B) {
	path := os.Getenv("MEMGAUGE_BENCH_DB") // keeps the rows from one run to the next
	if path == "" {
		path = b.TempDir() + "/session.duckdb"
	}
	_, err := os.Stat(path)
	db := open(b, Options{Path: path})
	if err != nil {
		fillTrace(b, db, 10_000_000, rowGroup, -1)
	}
	t := &testing.T{}
	for i, s := range append(seedStatements(t), factStatements(t)...) {
		if s.later {
			continue
		}
		b.Run(fmt.Sprint(i), func(b *testing.B) {
			best, rows := time.Hour, 0
			for range 3 {
				took, n := drain(b, db, s.sql)
				best, rows = min(best, took), n
			}
			unit := "ms"
			if rows > 1_000_000 { // most of the table is its answer
				unit = "ms-whole-table"
			}
			b.ReportMetric(float64(best.Microseconds())/1000, unit)
			b.ReportMetric(0, "ns/op")
			b.Logf("%.1f ms  %.100s", float64(best.Microseconds())/1000, strings.Join(strings.Fields(s.sql), " "))
		})
	}
	b.Run("memory", func(b *testing.B) {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		b.ReportMetric(float64(u.Maxrss>>10), "MiB-peak-RSS")
	})
}

// rowGroup is how many rows DuckDB compresses together: batches of so many go straight into the file, past the log.
const rowGroup = 122_880

// drain asks and reads all of the answer.
func drain(b *testing.B, db *DB, sql string) (took time.Duration, rows int) {
	start := time.Now()
	r, err := db.Query(context.Background(), sql)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for r.Next() {
		rows++
	}
	if r.Err() != nil {
		b.Fatal(r.Err())
	}
	return time.Since(start), rows
}

// What the gate takes of a question that was not asked before, and of one that was.
func BenchmarkGate(b *testing.B) {
	db := open(b, Options{})
	c, err := db.connect()
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	const sql = "SELECT step, module, max(allocated) - min(allocated) AS grown FROM python.torch_trace WHERE stage = 'post forward' GROUP BY ALL ORDER BY grown DESC LIMIT 10"
	b.Run("new", func(b *testing.B) {
		for b.Loop() {
			if _, err := gate(c, sql); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("known", func(b *testing.B) {
		for b.Loop() {
			if _, err := db.gates.pass(c, sql); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What a process of its own for questions would have to do for each while another one writes: open, ask, close.
// Starting the process comes on top (decisions/0007).
func BenchmarkOpenAskClose(b *testing.B) {
	db := open(b, Options{})
	fillTrace(b, db, 1_000_000, 100_000, -1)
	path := db.o.Path
	if err := db.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		db, err := Open(context.Background(), Options{Path: path, ReadOnly: true, Threads: 2})
		if err != nil {
			b.Fatal(err)
		}
		ask(b, db, "SELECT count(*), max(allocated) FROM python.torch_trace")
		if err := db.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
