package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
)

func TestMaintainKeepsTheLimit(t *testing.T) {
	const limit = 64 << 20
	db := open(t, Options{MaxDisk: limit})
	ctx := context.Background()
	add(t, db, &model.Batch{Names: moduleNames()})
	var rows, steps int64
	var total Report
	for round := range 46 {
		b := model.Batch{}
		for range 50_000 {
			r := traceRow(rows, -1)
			r.Cached = noise(rows*7) << 12
			b.Trace = append(b.Trace, r)
			if rows++; rows%perStep == 0 {
				steps++
				for k := range int64(20) { // more steps than sampled ones
					b.Steps = append(b.Steps, model.Step{Time: r.Time + k, PID: 4000, Step: steps*20 + k, Steps: 1,
						DurationNS: 1e6, Allocated: noise(rows + k), MaxAllocated: noise(rows+k) << 1, AgentNS: 1})
				}
			}
		}
		b.Cursors = []model.Cursor{{RingID: 1, Seq: uint64(rows)}}
		add(t, db, &b)
		rep, err := db.Maintain(ctx)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		total.Thinned, total.Merged, total.Freed = total.Thinned+rep.Thinned, total.Merged+rep.Merged,
			total.Freed+rep.Freed
		if size, err := db.diskLocked(); err != nil || size > limit {
			t.Fatalf("round %d: %d bytes, %v", round, size, err)
		}
	}
	if total.Thinned == 0 {
		t.Error("nothing was thinned")
	}
	// What is left and what is counted as gone is all that came.
	lost := fmt.Sprint(ask(t, db,
		"SELECT coalesce(sum(records), 0) FROM memgauge.drops WHERE source = 'python.torch_trace'")[0][0])
	if left := countTrace(t, db); fmt.Sprint(rows-left) != lost {
		t.Errorf("%d of %d rows are left, %s are counted as gone", left, rows, lost)
	}
	if got := fmt.Sprint(ask(t, db, "SELECT sum(steps), sum(agent_ns) FROM python.steps")[0]); total.Freed == 0 &&
		got != fmt.Sprint([]any{steps * 20, steps * 20}) {
		t.Errorf("steps and their cost %s, want %d each", got, steps*20)
	}
	t.Logf("%+v of %d rows", total, rows)
}

// When nothing is left to thin or merge, the oldest rows go, and are counted; the newest stay.
func TestMaintainDropsTheOldest(t *testing.T) {
	const limit = 64 << 20 // the least that run --max-disk takes
	db := open(t, Options{MaxDisk: limit})
	ctx := context.Background()
	bits := func(n int64) int64 { return int64(uint64(n) * 0x9e3779b97f4a7c15 >> 1) } // nothing can be compressed
	rows, freed := int64(0), int64(0)
	for round := range 32 {
		b := model.Batch{Cursors: []model.Cursor{{RingID: 1, Seq: uint64(round + 1)}}}
		for range 60_000 { // cost, which can be neither thinned nor merged
			rows++
			b.Overheads = append(b.Overheads, model.Overhead{Time: rows, PID: 4000, Part: "hooks", NS: bits(rows),
				Count: bits(rows * 3), Steps: bits(rows * 5), CoveredNS: bits(rows * 7)})
		}
		add(t, db, &b)
		rep, err := db.Maintain(ctx)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		freed += rep.Freed
		if size, err := db.diskLocked(); err != nil || size > limit {
			t.Fatalf("round %d: %d bytes, %v", round, size, err)
		}
	}
	got := fmt.Sprint(ask(t, db,
		"SELECT count(*), max(epoch_us(ts)), (SELECT coalesce(sum(records), 0) FROM memgauge.drops WHERE source = 'memgauge.overhead') FROM store.overhead")[0])
	if want := fmt.Sprint([]any{rows - freed, rows, freed}); freed == 0 || got != want {
		t.Errorf("left, newest, counted as dropped: %s, want %s", got, want)
	}
}

// Thinned steps keep their highest and lowest reading and their last row.
func TestThinningKeepsExtremes(t *testing.T) {
	db := open(t, Options{MaxDisk: 1}) // whatever there is, it is too much
	const n = 100 * perStep
	fillTrace(t, db, n, n, -1)
	const sql = "SELECT step, max(allocated), min(allocated), max(seq) FROM python.torch_trace GROUP BY step ORDER BY step"
	before := ask(t, db, sql)
	more, gone, err := true, int64(0), error(nil)
	for range 5 {
		if gone, more, err = giveUpOnce(db, levelThin, "trace"); err != nil || !more ||
			gone == 0 {
			t.Fatalf("%d gone, more %t, %v", gone, more, err)
		}
	}
	if got := ask(t, db, sql); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Error("peaks, floors or last rows of steps changed")
	}
	if left := countTrace(t, db); left > n*7/10 {
		t.Errorf("%d of %d rows are left", left, n)
	}
}

func TestMergingKeepsFloorsPeaksAndSums(t *testing.T) {
	db := open(t, Options{})
	var b model.Batch
	for i := range int64(1000) {
		b.Steps = append(b.Steps, model.Step{Time: i * 1000, PID: 1, Rank: 0, World: 1, Step: i + 1, Steps: 1,
			DurationNS: 10, Device: -1, Allocated: 100 + noise(i)%50, MaxAllocated: 200 + noise(i)%50,
			HeapInUse: model.Null, GCFull: 1, AgentNS: 3, GCCollections: i})
	}
	add(t, db, &b)
	if gone, _, err := giveUpOnce(db, levelMerge, "steps"); err != nil || gone < 100 {
		t.Fatalf("%d gone, %v", gone, err)
	}
	first := ask(t, db,
		"SELECT step, steps, duration, allocated, max_allocated, heap_in_use, gc_full, agent_ns, gc_collections, device FROM python.steps ORDER BY step")[0]
	floor, peak := int64(1000), int64(0)
	for _, s := range b.Steps[:16] {
		floor, peak = min(floor, s.Allocated), max(peak, s.MaxAllocated)
	}
	if want := fmt.Sprint([]any{16, 16, 160e-9, floor, peak, nil, 16, 48, 15, "cpu"}); fmt.Sprint(first) != want {
		t.Errorf("merged row %v, want %s", first, want)
	}
	if got := fmt.Sprint(ask(t, db, "SELECT sum(steps), max(step) FROM python.steps")[0]); got != "[1000 1000]" {
		t.Errorf("steps %s", got)
	}
}

// TestStepDevices: rows of devices arrive whole, are merged as steps are, and a session of the first release has those
// of its fullest device.
func TestStepDevices(t *testing.T) {
	db := open(t, Options{})
	var b model.Batch
	for i := range int64(1000) {
		for device := range int8(2) {
			b.Devices = append(b.Devices, model.StepDevice{Time: i * 1000, PID: 1, Rank: 3, Step: i + 1, Steps: 1,
				Device: device, Allocated: 100 + noise(i)%50, MaxAllocated: 200 + noise(i)%50, Reserved: 300,
				MaxReserved: model.Null})
		}
	}
	add(t, db, &b)
	if got := fmt.Sprint(ask(t, db,
		"SELECT * EXCLUDE (ts, allocated, max_allocated) FROM python.step_devices WHERE step = 7 ORDER BY device")); got !=
		"[[1 3 7 1 false cuda:0 300 <nil>] [1 3 7 1 false cuda:1 300 <nil>]]" {
		t.Errorf("rows %s", got)
	}
	before := ask(t, db,
		"SELECT device, min(allocated), max(max_allocated), sum(steps), max(step) FROM python.step_devices GROUP BY device ORDER BY device")
	if gone, _, err := giveUpOnce(db, levelMerge, "step_devices"); err != nil || gone < 100 {
		t.Fatalf("%d gone, %v", gone, err)
	}
	after := ask(t, db,
		"SELECT device, min(allocated), max(max_allocated), sum(steps), max(step) FROM python.step_devices GROUP BY device ORDER BY device")
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("merged %v, before %v", after, before)
	}
	db = open(t, Options{Path: firstRelease(t, "INSERT INTO store.steps (ts, pid, step, steps, sampled, inference, device, "+
		"allocated) VALUES (TIMESTAMP '2026-01-01', 9, 1, 1, false, false, 'cuda:2', 7)")})
	if got := fmt.Sprint(ask(t, db,
		"SELECT pid, step, device, allocated FROM python.step_devices")); got != "[[9 1 cuda:2 7]]" {
		t.Errorf("of the first release's session: %s", got)
	}
}

// firstRelease makes a session's database as the first release left it, with some rows.
func firstRelease(t *testing.T, rows string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "session.duckdb")
	all, err := migrations()
	if err == nil {
		err = onFile(Options{Path: path, TempDir: t.TempDir()}.withDefaults(), func(c *conn) error {
			for _, m := range all[:5] {
				if err := m.run(c); err != nil {
					return err
				}
			}
			return c.exec(rows)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMaintainCostsNothingFarFromTheLimit(t *testing.T) {
	db := open(t, Options{MaxDisk: 1 << 30})
	add(t, db, everything())
	rep, err := db.Maintain(context.Background())
	if err != nil || rep.Thinned+rep.Merged+rep.Freed != 0 || rep.Before == 0 {
		t.Errorf("%+v, %v", rep, err)
	}
}

func BenchmarkOpen(b *testing.B) {
	db := open(b, Options{})
	fillTrace(b, db, 6000, 6000, -1)
	db.Close()
	for b.Loop() {
		start := time.Now()
		db, err := Open(context.Background(), Options{Path: db.o.Path})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(time.Since(start).Microseconds())/1000, "ms-open")
		if _, err := tryAsk(context.Background(), db,
			"SELECT step, max(allocated) FROM python.torch_trace GROUP BY step ORDER BY step"); err != nil {
			b.Fatal(err)
		}
		db.Close()
	}
}

// giveUpOnce treats one slice of a stored table.
func giveUpOnce(db *DB, level int, stored string) (gone int64, more bool, err error) {
	return db.giveUpLocked(context.Background(), level, table.Find("store."+stored))
}
