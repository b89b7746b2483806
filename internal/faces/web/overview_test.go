package web

import (
	"context"
	"io"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// counting is a real session; it counts how often its rows are read.
type counting struct {
	*service.Service
	asked int
}

func (c *counting) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	c.asked++
	return c.Service.Query(ctx, q, w)
}

// An overview answers as the rows do, at any width and stretch, while the session grows by more than it had; and what
// it has read it does not read again.
func TestOverviewAnswersAsTheRows(t *testing.T) {
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Path: filepath.Join(dir, "s.duckdb"), TempDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := &counting{Service: &service.Service{Open: service.Opened(db)}}
	const begin = int64(1_700_000_000_000_000)
	random := rand.New(rand.NewPCG(1, 2))
	track, err := questions.TrackOf("process", 7, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	var v overview
	now := begin
	for round := range 5 {
		b := &model.Batch{}
		for range 10_000 {
			now += random.Int64N(120_000)
			if random.IntN(5000) == 0 {
				now += 30e6 // nothing was read for a while
			}
			m := model.ProcessMemory{Time: now, PID: 7,
				RSS: random.Int64N(1 << 34), Anon: random.Int64N(1 << 33), File: random.Int64N(1 << 30),
				HeapInUse: random.Int64N(1 << 32), HeapHeld: 1 << 32}
			if random.IntN(3) == 0 { // no agent has told of the heap yet
				m.HeapInUse, m.HeapHeld = model.Null, model.Null
			}
			b.Samples.Memory = append(b.Samples.Memory, m)
		}
		if err := db.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		for range 6 {
			from := begin + random.Int64N(now-begin)
			i := questions.Interval{From: from, Width: 1 << (13 + random.IntN(14))}
			i.To = min(now, (from+random.Int64N(now-from+1))|(1<<27-1)) // all widths end there
			got, err := v.read(t.Context(), s, track, i)
			if err != nil {
				t.Fatal(err)
			}
			want, err := api.Ask(t.Context(), s, track.In(i))
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 && len(got) == 0 {
				continue
			}
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("round %d, %+v, overview of %d µs: %d intervals, not %d as the rows have", round, i, v.width,
					len(got), len(want))
			}
		}
		if n := len(v.rows); n == 0 || n > 2*overviewIntervals {
			t.Errorf("the overview has %d intervals", n)
		}
	}
	for _, to := range []int64{now, now - 2*lateReadings.Microseconds()} {
		s.asked = 0
		i := questions.Interval{From: begin, To: to, Width: 1 << 26}
		if _, err := v.read(t.Context(), s, track, i); err != nil {
			t.Fatal(err)
		}
	}
	if s.asked != 0 {
		t.Errorf("what was read is read again: %d questions", s.asked)
	}
}
