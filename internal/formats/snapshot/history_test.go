package snapshot

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// pooled has the same stream inside of a private pool and outside of it.
func pooled() *Snapshot {
	block := func(addr uint64) []Block {
		return []Block{{Address: addr, Size: 2 << 20, Requested: 2 << 20, State: Allocated}}
	}
	return &Snapshot{
		Segments: []Segment{
			{Address: 2 << 20, Size: 2 << 20, Stream: 7, Kind: "small", Blocks: block(2 << 20)},
			{Address: 8 << 20, Size: 2 << 20, Stream: 7, Kind: "small", Pool: [2]int64{0, 1}, Blocks: block(8 << 20)},
		},
		Traces:   [][]Event{nil, nil, {{Action: Alloc, Device: 2, Addr: 1, Size: 1}}},
		Settings: []Setting{{"expandable_segments", false}},
	}
}

func steps(h *History) (out []Step) {
	for i := range h.Len() {
		out = append(out, h.At(i))
	}
	return out
}

// A trace that is made of a pickle's columns is that of its structs.
func TestTraceOfColumns(t *testing.T) {
	s := pooled()
	for _, addr := range []uint64{2 << 20, 8 << 20} {
		s.Traces[0] = append(s.Traces[0],
			Event{Action: SegmentAlloc, Addr: addr, Size: 2 << 20, Stream: 7, Time: 1},
			Event{Action: Alloc, Addr: addr, Size: 1 << 20, Stream: 7, Time: 2},
			Event{Action: FreeRequested, Addr: addr, Size: 1 << 20, Stream: 7, Time: 3},
			Event{Action: FreeCompleted, Addr: addr, Size: 1 << 20, Stream: 7, Time: 3},
			Event{Action: Alloc, Addr: addr, Size: 2 << 20, Stream: 7, Time: 4},
			Event{Action: OOM, Size: 1 << 40, DeviceFree: 2 << 20, Stream: 7, Time: 5})
	}
	var data bytes.Buffer
	if err := WritePickle(&data, s); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "pooled.pickle")
	if err := os.WriteFile(path, data.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{path, mosaic} {
		whole, _, err := ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := whole.Trace(0)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadTrace(file, func(with []int) (int, error) {
			if !slices.Equal(with, whole.WithAllocations()) {
				t.Errorf("%s: devices %v have allocations, want %v", file, with, whole.WithAllocations())
			}
			return 0, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(steps(&got.Events), steps(&want.Events)) ||
			!reflect.DeepEqual(got.Opening, want.Opening) ||
			!reflect.DeepEqual(got.Recorded, want.Recorded) || !reflect.DeepEqual(got.Settings, want.Settings) {
			t.Errorf("%s: got %+v, %+v, %v; want %+v, %+v, %v", file, got.Opening, got.Recorded, steps(&got.Events),
				want.Opening, want.Recorded, steps(&want.Events))
		}
		got.Close()
		if got.Events.Len() != 0 {
			t.Errorf("%s: %d events after Close", file, got.Events.Len())
		}
	}
}

// Two traces of the same columns: the private pools in the streams of one are not in the columns.
func TestTraceLeavesColumnsAlone(t *testing.T) {
	s := pooled()
	s.Traces[0] = []Event{{Action: Alloc, Addr: 8 << 20, Size: 1, Stream: 7}}
	var data bytes.Buffer
	if err := WritePickle(&data, s); err != nil {
		t.Fatal(err)
	}
	c, err := ReadColumns(context.Background(), &data, testBudget)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	tr, err := c.Trace(0)
	if err != nil {
		t.Fatal(err)
	}
	if got := tr.Events.At(0).Stream; got != 7|1<<poolBit {
		t.Errorf("stream %#x in the trace", got)
	}
	if got := c.Streams[c.Stream[0]]; got != 7 || len(c.Streams) != 2 {
		t.Errorf("stream %#x, streams %v in the columns", got, c.Streams)
	}
	if _, err := c.Trace(1); !errors.Is(err, ErrNoHistory) {
		t.Errorf("a device without events: %v", err)
	}
}

// What a history has beyond 65,536 streams shares the last one's place.
func TestManyStreams(t *testing.T) {
	var h History
	for stream := range uint64(1<<16 + 10) {
		h.Add(Event{Action: Alloc, Stream: stream})
	}
	if got := []uint64{h.At(5).Stream, h.At(1<<16 - 1).Stream, h.At(1<<16 + 9).Stream}; !slices.Equal(got,
		[]uint64{5, 1<<16 - 1, 1<<16 - 1}) {
		t.Errorf("streams %v", got)
	}
}
