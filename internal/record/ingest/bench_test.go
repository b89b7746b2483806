package ingest

import (
	"context"
	"fmt"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/formats/wire/wiretest"
)

// nowhere is a Sink that keeps nothing.
type nowhere struct{}

func (nowhere) Append(context.Context, *model.Batch) error               { return nil }
func (nowhere) Cursors(context.Context) (map[uint64]model.Cursor, error) { return nil, nil }
func (nowhere) Names(context.Context) ([]model.Name, error)              { return nil, nil }

// fill writes n records as a model with 50 modules does: pre and post of each, then the end of the step.
func fill(r *wiretest.Ring, n int) {
	var ids [50]uint32
	for i := range ids {
		ids[i] = r.Intern(fmt.Sprintf("layers.%d.mlp", i))
	}
	step := uint32(1)
	for i := 0; i < n; i++ {
		at := i % 101
		if at == 100 {
			r.Append(&wire.Step{TS: uint64(i), Step: step, Steps: 1})
			step++
			continue
		}
		t := wire.Trace{TS: uint64(i), Device: -1, Step: step, Allocated: uint64(at), MaxAllocated: none, Cached: 9,
			MaxCached: none}
		if at < 50 {
			t.Name = ids[at]
		} else {
			t.Name, t.Stage = ids[99-at], 1
		}
		r.Append(&t)
	}
}

// BenchmarkDecode is a full ring from file to rows, without the sink.
func BenchmarkDecode(b *testing.B) {
	const n = 1 << 16
	dir := b.TempDir()
	r, err := wiretest.Create(dir, wiretest.Options{PID: 1, Start: 1, Slots: n})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	fill(r, n)
	in := New(dir, nowhere{}, Options{Alive: func(int, uint64) bool { return true }})
	defer in.Close()
	for b.Loop() {
		if s, err := in.Drain(b.Context()); err != nil || s.Records != n {
			b.Fatalf("%+v %v", s, err)
		}
		in.rings[0].next = 1
		in.cursors = map[uint64]model.Cursor{}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mrecords/s")
}

// BenchmarkIdle is a drain of 64 rings with nothing new.
func BenchmarkIdle(b *testing.B) {
	dir := b.TempDir()
	for pid := range uint32(64) {
		r, err := wiretest.Create(dir, wiretest.Options{PID: pid + 1, Start: 1})
		if err != nil {
			b.Fatal(err)
		}
		defer r.Close()
		fill(r, 100)
	}
	in := New(dir, nowhere{}, Options{Alive: func(int, uint64) bool { return true }})
	defer in.Close()
	if _, err := in.Drain(b.Context()); err != nil {
		b.Fatal(err)
	}
	in.listed.stable = true // as two seconds later
	b.ReportAllocs()
	for b.Loop() {
		if s, err := in.Drain(b.Context()); err != nil || s.Rows != 0 || s.Rings != 64 {
			b.Fatalf("%+v %v", s, err)
		}
	}
}
