package analyse

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// statements remembers the statements that a database was asked.
type statements struct {
	store.Querier
	list []string
}

func (s *statements) Query(ctx context.Context, sql string) (*store.Rows, error) {
	s.list = append(s.list, sql)
	return s.Querier.Query(ctx, sql)
}

// TestTablesAreReadOnce: of the tables that have a row each second, or each step, every row is read once, and nothing
// is joined in the database: for a day that took most of a verdict's time.
func TestTablesAreReadOnce(t *testing.T) {
	census := holders("train.py", "lib/site-packages/big.py", 9, 9)
	from := &statements{Querier: stored(t, cut(cudaRun(200, 64*kib, 0), census, 0, 200))}
	if _, err := Judge(t.Context(), from, Options{}); err != nil {
		t.Fatal(err)
	}
	for table, most := range map[string]int{"process.memory": 1, "host.memory": 1, "cgroup.memory": 1,
		"python.steps": 2, "python.step_devices": 2, "memgauge.events": 2, "process.tree": 1} {
		asked := 0
		for _, sql := range from.list {
			if !strings.Contains(sql, table) || strings.HasPrefix(sql, "SELECT count(*)") { // which reads no row
				continue
			}
			asked++
			if strings.Contains(sql, "JOIN") || strings.Contains(sql, "OVER (") {
				t.Errorf("%s is joined:\n%s", table, sql)
			}
		}
		if asked > most {
			t.Errorf("%s is read %d times, %d are enough", table, asked, most)
		}
	}
}

// TestRoomIsMadeOnce: of readings of a day no list grows piece by piece, each time into a copy of itself:
// that took as long as reading them.
func TestRoomIsMadeOnce(t *testing.T) {
	const seconds = 20_000
	b := cudaRun(9, 0, 0)
	for i := range int64(seconds) {
		now := b.Steps[0].Time + i*10
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: now, PID: 7, Rank: -1, RSS: gib,
			Anon: gib})
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: now, Total: 64 * gib, Available: 40 * gib})
		b.Samples.Cgroups = append(b.Samples.Cgroups, model.CgroupMemory{Time: now, Path: "/job", Current: gib,
			Limit: 32 * gib, Shmem: mib, Anon: gib})
	}
	db := stored(t, b)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in, err := Load(t.Context(), db, Options{})
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	p := in.Processes[0]
	if n := len(p.Space.Bytes); n < mostBuckets/2 || n > mostBuckets || len(p.Unmapped.Bytes) < 1000 {
		t.Errorf("%d readings of the process, %d of its cgroup", n, len(p.Unmapped.Bytes))
	}
	// 250 bytes are what is kept of a second: a reading of each of three tables, and what is made of them
	if each := (after.TotalAlloc - before.TotalAlloc) / seconds; each > 600 {
		t.Errorf("%d bytes were allocated for each second", each)
	}
}

// TestReadingsAreThoseOfHostSQL: the readings of the host are those that a watch asks for, of rows in any order, with
// gaps, several cgroups, and steps that end in between.
func TestReadingsAreThoseOfHostSQL(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	some := func(n int64) int64 {
		if r.IntN(8) == 0 {
			return model.Null
		}
		return n
	}
	for range 5 {
		b := &model.Batch{}
		for i := range int64(300) {
			now := begin + i*250_000 + r.Int64N(50_000)
			b.Steps = append(b.Steps, model.Step{Time: now, PID: 7 + int32(i%2), Rank: -1, Step: i/2 + 1, Steps: 1,
				HeapInUse: gib + i})
			if i%2 == 0 {
				continue
			}
			s := &b.Samples
			if r.IntN(9) > 0 {
				s.Hosts = append(s.Hosts, model.HostMemory{Time: now, Total: 64 * gib, Available: 40*gib - i*mib})
			}
			for pid := range int32(3) {
				s.Memory = append(s.Memory, model.ProcessMemory{Time: now, PID: 7 + pid, Rank: -1, Anon: gib, RSS: gib,
					File: some(int64(pid) * mib)})
			}
			for k := range r.Int64N(3) {
				s.Cgroups = append(s.Cgroups, model.CgroupMemory{Time: now, Path: fmt.Sprint("/", k),
					Current: some(gib + r.Int64N(gib)), Limit: some((4 + k) * gib), InactiveFile: some(mib),
					ActiveFile: some(mib), SlabReclaimable: some(kib)})
			}
		}
		r.Shuffle(len(b.Samples.Hosts), func(i, k int) {
			b.Samples.Hosts[i], b.Samples.Hosts[k] = b.Samples.Hosts[k], b.Samples.Hosts[i]
		})
		r.Shuffle(len(b.Samples.Memory), func(i, k int) {
			b.Samples.Memory[i], b.Samples.Memory[k] = b.Samples.Memory[k], b.Samples.Memory[i]
		})
		r.Shuffle(len(b.Samples.Cgroups), func(i, k int) {
			b.Samples.Cgroups[i], b.Samples.Cgroups[k] = b.Samples.Cgroups[k], b.Samples.Cgroups[i]
		})
		db := stored(t, b)
		in, err := Load(t.Context(), db, Options{})
		if err != nil {
			t.Fatal(err)
		}
		sameReadings(t, in, hostTrack(t, db))
	}
}

// hostTrack is what HostSQL tells.
func hostTrack(t *testing.T, db *store.DB) (host track) {
	t.Helper()
	err := store.Floats(t.Context(), db, fmt.Sprintf(HostSQL, 0, MaxReadings), func(v []float64) {
		host.addHost(&reading{us: v[0], total: v[2], available: v[3]}, orZeroFloat(v[1]),
			&cgroup{current: v[4], limit: v[5], inactive: v[6], active: v[7], dirty: v[8], writeback: v[9],
				slab: v[10]}, v[11])
	})
	if err != nil {
		t.Fatal(err)
	}
	return host
}

func orZeroFloat(v float64) float64 {
	if math.IsNaN(v) {
		return 0
	}
	return v
}

func sameReadings(t *testing.T, in detect.Input, want track) {
	t.Helper()
	end := in.Host.Lag*1e6 + want.last
	if w := want.room(end); !slices.Equal(in.Host.Readings, w.Readings) || in.Host.Name != w.Name ||
		in.Host.Bytes != w.Bytes || in.Host.Used != w.Used || len(w.Readings) < 100 {
		t.Errorf("the host is\n%+v, not\n%+v", in.Host, w)
	}
}
