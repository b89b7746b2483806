package anatomy

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// madeUp is a history of random allocations, some from before it.
func madeUp(t testing.TB, seed uint64, n int) (*History, *Device) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{{}}}
	var live []snapshot.Event
	for i := range 20 {
		live = append(live, snapshot.Event{Addr: uint64(i+1) << 30, Size: int64(512 * (i + 1))})
	}
	for i := range n {
		if len(live) > 0 && r.IntN(100) < 48 {
			k := r.IntN(len(live))
			if r.IntN(3) > 0 {
				k = len(live) - 1
			}
			e := live[k]
			live = append(live[:k], live[k+1:]...)
			e.Action, e.Time = snapshot.FreeCompleted, int64(i+1)
			s.Traces[0] = append(s.Traces[0], e)
			continue
		}
		e := snapshot.Event{Action: snapshot.Alloc, Addr: 1<<40 + uint64(i)<<20, Time: int64(i + 1),
			Size: int64(512 << r.IntN(14))}
		live = append(live, e)
		s.Traces[0] = append(s.Traces[0], e)
	}
	h := read(t, s)
	return h, h.Devices[0]
}

func read(t testing.TB, s *snapshot.Snapshot) *History {
	t.Helper()
	var file bytes.Buffer
	if err := snapshot.WritePickle(&file, s); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.ReadColumns(t.Context(), &file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return New(c)
}

// At the finest zoom each column is an event, and its boxes are the blocks that are live behind it, the oldest lowest
// and without a gap. At any zoom boxes of a column don't overlap, and reach its highest level or beyond.
func TestBoxesAreWhatIsLive(t *testing.T) {
	for seed := range uint64(5) {
		h, d := madeUp(t, seed, 700)
		b := h.Boxes(d)
		for index := 0; index*TileColumns < b.Len(); index++ {
			tile, ok := b.Tile(0, index, 1)
			if !ok || tile.Least != 1 {
				t.Fatalf("tile %d: %v, least %d", index, ok, tile.Least)
			}
			for c := range tile.Columns {
				checkColumn(t, b, tile, c)
			}
		}
		for level := range 12 {
			tile, ok := b.Tile(level, 0, 4096)
			if !ok {
				t.Fatalf("level %d has no tile", level)
			}
			for c := range tile.Columns {
				at := int64(0)
				for _, x := range columnOf(tile, c) {
					if x.Bottom != at {
						t.Fatalf("level %d, column %d: a box at %d, not at %d", level, c, x.Bottom, at)
					}
					at += x.Bytes
				}
				if at < highest(tile.Columns[c], level) {
					t.Fatalf("level %d, column %d: boxes end at %d below %d", level, c, at,
						highest(tile.Columns[c], level))
				}
			}
		}
	}
}

// columnOf is a column's boxes from the lowest up.
func columnOf(tile BoxTile, c int) (list []Box) {
	at := int64(0)
	for {
		found := false
		for _, x := range tile.Boxes {
			if x.From <= c && c < x.To && x.Bottom == at && x.Bytes > 0 {
				list, at, found = append(list, x), at+x.Bytes, true
				break
			}
		}
		if !found {
			return list
		}
	}
}

func checkColumn(t *testing.T, b *Boxes, tile BoxTile, c int) {
	t.Helper()
	event, at, k := tile.Index*TileColumns+c, int64(0), 0
	list := columnOf(tile, c)
	b.Live(event, func(id uint32, bytes int64) {
		if k >= len(list) || list[k].ID != id || list[k].Bottom != at || list[k].Bytes != bytes {
			t.Fatalf("event %d: block %d of %d bytes at %d is missing", event, id, bytes, at)
		}
		at, k = at+bytes, k+1
	})
	if live := b.h.Live[b.d.From+event]; at != live {
		t.Fatalf("event %d: %d bytes in boxes, %d live", event, at, live)
	}
	if len(list) > k {
		t.Fatalf("event %d: %+v lies above what is live", event, list[k])
	}
}

// A tile keeps its bound whatever is asked for.
func TestTilesAreBounded(t *testing.T) {
	h, d := madeUp(t, 9, 60_000)
	b := h.Boxes(d)
	for _, q := range [][3]int{{0, 0, 0}, {0, 100, 1}, {9, 0, 1}, {17, 0, -5}, {31, 0, 1}} {
		tile, ok := b.Tile(q[0], q[1], int64(q[2]))
		if !ok || len(tile.Boxes) > maxTileBoxes || len(tile.Columns) > TileColumns {
			t.Errorf("%v: %v, %d boxes, %d columns", q, ok, len(tile.Boxes), len(tile.Columns))
		}
	}
	for _, q := range [][2]int{{-1, 0}, {32, 0}, {0, -1}, {0, 1 << 40}, {20, 1}} {
		if _, ok := b.Tile(q[0], q[1], 1); ok {
			t.Errorf("%v has a tile", q)
		}
	}
	for _, id := range []uint32{Rest, Rest - 1, 1 << 30} {
		if _, ok := b.Block(id); ok {
			t.Errorf("there is no block %d", id)
		}
	}
}

// A device without events, or whose history knows nothing of it, has no tiles to fail on.
func TestBoxesOfNothing(t *testing.T) {
	h := read(t, &snapshot.Snapshot{Segments: []snapshot.Segment{{Address: 512, Size: 512, Kind: "small",
		Blocks: []snapshot.Block{{Address: 512, Size: 512, Requested: 500, State: snapshot.Allocated}}}}})
	b := h.Boxes(h.Devices[0])
	tile, ok := b.Tile(0, 0, 1)
	if !ok || len(tile.Columns) != 0 || len(tile.Boxes) != 0 {
		t.Errorf("%v %+v", ok, tile)
	}
}
