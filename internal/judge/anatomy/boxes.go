package anatomy

import (
	"math/bits"
	"slices"
	"sort"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Boxes draws a device's blocks as boxes stacked over its events, at any zoom, with work and answers that depend on the
// pixels and not on the events. Blocks are kept by their length: a tile whose columns are 2^k events wide looks only at
// those that live for at least as long. It takes four bytes an allocation.
//
// Moments are events of the device, counted from 0: moment i lies behind event i. Blocks have an ID by age: those from
// before the history first.
type Boxes struct {
	h       *History
	d       *Device
	pyramid *Pyramid
	notes   Notes
	old     []old
	lengths [32][]int32 // by power of two: events of the allocs, ascending
}

// old is a block from before the history: it has an end there, or lies in Blocks.
type old struct {
	block int // None: the file has no block of it
	to    int
	bytes int64
}

// Boxed is a block as it is drawn.
type Boxed struct {
	ID       uint32
	From, To int  // events: made by the first, gone with the second
	Made     bool // the history has the event From
	Freed    bool // and To
	Bytes    int64
	Stack    uint32
	Use      Category
}

// Box is a part of a block's picture: a block lies lower when one below it has gone.
type Box struct {
	From, To int // columns of the tile
	Bottom   int64
	Bytes    int64
	ID       uint32 // Rest for what is not drawn one by one
	Stack    uint32
	Use      Category
}

// Rest is the ID of what lives too short or is too small to be a box.
const Rest = ^uint32(0)

// BoxTile is a stretch of the picture.
type BoxTile struct {
	Level, Index int
	Least        int64 // bytes: smaller blocks are in the rest
	Boxes        []Box // by column
	Columns      []Pixel
}

const (
	// TileColumns are the columns of a tile.
	TileColumns = 512
	// maxTileBoxes bounds a tile: a software renderer takes 2 µs for each, and draws some tiles at once.
	maxTileBoxes = 8192
	// maxTileBlocks bounds the blocks that a tile looks at.
	maxTileBlocks = 4 * maxTileBoxes
	maxLevel      = 31 // rows are numbered in 32 bits
)

// Boxes prepares those of a device.
func (h *History) Boxes(d *Device) *Boxes {
	b := &Boxes{h: h, d: d, pyramid: h.Pyramid(d), notes: h.NotesOf(d)}
	b.pyramid.ByEvent = true
	n := d.To - d.From
	for _, i := range d.Old {
		b.old = append(b.old, old{block: i, to: n, bytes: h.Blocks[i].Requested})
	}
	for _, row := range d.OldFrees {
		b.old = append(b.old, old{block: None, to: row - d.From, bytes: h.Size[row]})
	}
	var counts [32]int
	b.eachLength(func(_ int32, length int) { counts[length]++ })
	for i, count := range counts {
		b.lengths[i] = make([]int32, 0, count)
	}
	b.eachLength(func(event int32, length int) { b.lengths[length] = append(b.lengths[length], event) })
	return b
}

// eachLength calls f for each alloc with the power of two of its length.
func (b *Boxes) eachLength(f func(event int32, length int)) {
	d, h := b.d, b.h
	for row := d.From; row < d.To; row++ {
		if h.Action[row] == snapshot.IsAlloc {
			f(int32(row-d.From), bits.Len(uint(b.end(row)-(row-d.From)))-1)
		}
	}
}

// end is the event with which an alloc's block goes; the number of events where it stays.
func (b *Boxes) end(row int) int {
	if p := b.h.Partner[row]; p != None {
		return int(p) - b.d.From
	}
	return b.d.To - b.d.From
}

// Len is the number of events.
func (b *Boxes) Len() int { return b.d.To - b.d.From }

// Allocs is the number of blocks that the history has made.
func (b *Boxes) Allocs() (n int) {
	for _, l := range b.lengths {
		n += len(l)
	}
	return n
}

// Block is the one of an ID.
func (b *Boxes) Block(id uint32) (x Boxed, ok bool) {
	if int(id) < len(b.old) {
		o := b.old[id]
		x = Boxed{ID: id, To: o.to, Bytes: o.bytes, Freed: o.to < b.Len()}
		if o.block != None {
			x.Stack, x.Use = b.h.Blocks[o.block].Stack, b.h.BlockCategory(o.block)
		}
		return x, true
	}
	row := int(id) - len(b.old) + b.d.From
	if id == Rest || row >= b.d.To || b.h.Action[row] != snapshot.IsAlloc {
		return x, false
	}
	end := b.end(row)
	return Boxed{ID: id, From: row - b.d.From, To: end, Made: true, Freed: end < b.Len(), Bytes: b.h.Size[row],
		Stack: b.h.Stack[row], Use: b.h.Category(row)}, true
}

// Attached are the texts that the program has attached to a block.
func (b *Boxes) Attached(id uint32) []string {
	if int(id) >= len(b.old) {
		return b.h.Attached(b.notes, int(id)-len(b.old)+b.d.From, 0)
	}
	o := b.old[id]
	if o.block != None {
		return b.h.Attached(b.notes, None, b.h.Blocks[o.block].Address)
	}
	return b.h.Attached(b.notes, None, b.h.Addr[b.d.From+o.to])
}

// Live calls f for each block that is live behind an event, the oldest first.
func (b *Boxes) Live(event int, f func(id uint32, bytes int64)) {
	for i, o := range b.old {
		if o.to > event {
			f(uint32(i), o.bytes)
		}
	}
	for row := b.d.From; row <= b.d.From+event && row < b.d.To; row++ {
		if b.h.Action[row] == snapshot.IsAlloc && b.end(row) > event {
			f(uint32(len(b.old)+row-b.d.From), b.h.Size[row])
		}
	}
}

// Tile draws columns 2^level events wide, from the TileColumns*index-th on, with blocks of at least so many bytes. One
// that would have too many boxes leaves out more, and says so.
func (b *Boxes) Tile(level, index int, least int64) (BoxTile, bool) {
	if level < 0 || level > maxLevel || index < 0 || index > (max(1, b.Len())-1)>>level/TileColumns {
		return BoxTile{}, false
	}
	first := index * TileColumns
	last := (b.Len() + 1<<level - 1) >> level
	t := BoxTile{Level: level, Index: index, Least: max(1, least)}
	t.Columns = make([]Pixel, min(TileColumns, last-first))
	if len(t.Columns) > 0 {
		b.pyramid.Tile(int64(first)<<level, int64(first+len(t.Columns))<<level, t.Columns)
	}
	for ; ; t.Least *= 4 {
		ids, ok := b.among(first<<level, (first+len(t.Columns))<<level, level, t.Least)
		if !ok {
			continue
		}
		if t.Boxes, ok = b.stack(ids, level, first, len(t.Columns), t.Columns); ok {
			return t, true
		}
	}
}

// among lists blocks between two events that are long and large enough, by age.
func (b *Boxes) among(from, to, level int, least int64) (ids []uint32, ok bool) {
	for i, o := range b.old {
		if o.to > from && o.bytes >= least {
			ids = append(ids, uint32(i))
		}
	}
	for length := level; length < len(b.lengths); length++ {
		list := b.lengths[length]
		begin := from - 2<<length // who began before that has gone
		at := sort.Search(len(list), func(i int) bool { return int(list[i]) > begin })
		for _, event := range list[at:] {
			if int(event) >= to {
				break
			}
			row := int(event) + b.d.From
			if b.h.Size[row] < least || b.end(row) <= from {
				continue
			}
			if ids = append(ids, uint32(len(b.old)+int(event))); len(ids) > maxTileBlocks {
				return nil, false
			}
		}
	}
	if len(ids) > maxTileBlocks {
		return nil, false
	}
	slices.Sort(ids)
	return ids, true
}

// pile is the stack of a column.
type pile struct {
	live  []piled
	boxes []Box
}

type piled struct {
	Box // To is where the block ends
}

// stack lays blocks on each other, column by column, the oldest lowest.
func (b *Boxes) stack(ids []uint32, level, first, columns int, levels []Pixel) ([]Box, bool) {
	var p pile
	ends := make([]bool, columns+1)
	next := 0
	var top int64
	for c := range columns {
		if ends[c] {
			top = p.settle(c)
		}
		for ; next < len(ids); next++ {
			x, _ := b.Block(ids[next])
			from, to := b.column(x.From, level, first, columns), b.column(x.To, level, first, columns)
			if from > c {
				break
			}
			if from < to {
				p.live = append(p.live, piled{Box{c, to, top, x.Bytes, x.ID, x.Stack, x.Use}})
				top += x.Bytes
				ends[to] = true
			}
		}
		p.rest(c, top, highest(levels[c], level))
		if len(p.boxes) > maxTileBoxes {
			return nil, false
		}
	}
	p.settle(columns)
	for _, x := range p.live {
		x.To = columns
		p.boxes = append(p.boxes, x.Box)
	}
	return p.boxes, len(p.boxes) <= maxTileBoxes
}

// highest is how high a column is. One of a single event is as high as what is live behind it; a wider one as the
// highest level that it has seen.
func highest(x Pixel, level int) int64 {
	if level == 0 {
		return x.Last
	}
	return x.Max
}

// column is the border between columns that is nearest to an event: a block that lives as long as a column has at least
// one. The last column is drawn whole.
func (b *Boxes) column(event, level, first, columns int) int {
	c := (event + (1<<level)/2) >> level
	if event == b.Len() {
		c = (event + 1<<level - 1) >> level
	}
	return min(max(c-first, 0), columns)
}

// settle takes out what ends at a column, and lowers what lay on it. It gives the height.
func (p *pile) settle(c int) (top int64) {
	kept := p.live[:0]
	for _, x := range p.live {
		if x.To == c {
			p.emit(x, c)
			continue
		}
		if x.Bottom != top {
			p.emit(x, c)
			x.Box.From, x.Bottom = c, top
		}
		top += x.Bytes
		kept = append(kept, x)
	}
	p.live = kept
	return top
}

func (p *pile) emit(x piled, c int) {
	if x.From < c {
		x.To = c
		p.boxes = append(p.boxes, x.Box)
	}
}

// rest draws what is live in a column beyond its boxes.
func (p *pile) rest(c int, top, level int64) {
	if level <= top {
		return
	}
	p.boxes = append(p.boxes, Box{c, c + 1, top, level - top, Rest, 0, UnknownUse})
}
