package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
)

// block is the description of a block, from whichever part of the file has it.
type block struct {
	addr, stream uint64
	bytes        int64
	stack, pool  uint32
	use          anatomy.Category
}

// block finds a block's description: in the event of its allocation, else in the segments at the end, else in the event
// of its free.
func (l *snapshotLoad) block(r anatomy.Life) block {
	h := l.h
	switch {
	case r.Alloc != anatomy.None:
		i := r.Alloc
		return block{h.Addr[i], h.Streams[h.Stream[i]], h.Size[i], h.Stack[i], l.pools.code[h.Pool[i]], l.uses[i]}
	case r.Block != anatomy.None:
		b, g := &h.Blocks[r.Block], l.inside[r.Block]
		return block{b.Address, h.Segments[g].Stream, b.Requested, b.Stack, l.pools.code[len(h.Pools)+int(g)],
			h.BlockCategory(int(r.Block))}
	}
	i := r.Free
	return block{h.Addr[i], h.Streams[h.Stream[i]], h.Size[i], 0, l.pools.code[h.Pool[i]], anatomy.UnknownUse}
}

// time returns the time of a row in µs, if the row exists and has one.
func (l *snapshotLoad) time(row int32) (us int64, ok bool) {
	if row == anatomy.None {
		return 0, false
	}
	return l.h.Time[row], l.h.Time[row] != 0
}

// blocks fills a chunk.
func (l *snapshotLoad) blocks(s *sheet, at *moment, rows []anatomy.Life, sizes map[uint64]int64) {
	l.found = l.found[:0]
	for _, r := range rows {
		l.found = append(l.found, l.block(r))
	}
	found := l.found
	each(s, func(int) uint16 { return uint16(at.d.Number) })
	each(s, func(i int) uint64 { return found[i].addr })
	each(s, func(i int) int64 {
		if rows[i].Free == anatomy.None {
			if known, ok := sizes[found[i].addr]; ok {
				return known
			}
		}
		return (found[i].bytes + blockUnit - 1) / blockUnit * blockUnit
	})
	each(s, func(i int) int64 { return found[i].bytes })
	eachOr(s, func(i int) (int32, bool) { return rows[i].Alloc, rows[i].Alloc != anatomy.None })
	eachOr(s, func(i int) (int32, bool) { return rows[i].Free, rows[i].Free != anatomy.None })
	eachOr(s, func(i int) (int64, bool) { return l.time(rows[i].Alloc) })
	eachOr(s, func(i int) (int64, bool) { return l.time(rows[i].Free) })
	eachOr(s, func(i int) (int64, bool) {
		from, begun := l.time(rows[i].Alloc)
		to, ended := l.time(rows[i].Free)
		return to - from, begun && ended
	})
	each(s, func(i int) uint64 { return found[i].stream })
	s.coded(&l.pools, func(i int) uint32 { return found[i].pool })
	each(s, func(i int) uint32 { return found[i].stack })
	s.coded(&l.sites, func(i int) uint32 { return l.sites.code[found[i].stack] })
	s.enum(func(i int) uint32 { return uint32(found[i].use) })
	eachOr(s, func(i int) (int32, bool) {
		if rows[i].Alloc == anatomy.None {
			return 0, false
		}
		k := at.iteration(int(rows[i].Alloc))
		return k, k >= 0
	})
}

func (l *snapshotLoad) segments(s *sheet, from int) {
	rows := l.h.Segments[from : from+s.n]
	each(s, func(i int) int32 { return int32(from + i) })
	each(s, func(i int) uint16 { return uint16(rows[i].Device) })
	each(s, func(i int) uint64 { return rows[i].Address })
	each(s, func(i int) int64 { return rows[i].Size })
	each(s, func(i int) int64 { return rows[i].Allocated })
	each(s, func(i int) int64 { return rows[i].Active })
	each(s, func(i int) int64 { return rows[i].Requested })
	each(s, func(i int) uint64 { return rows[i].Stream })
	s.texts(func(i int) string { return l.h.Text(rows[i].Kind) })
	s.coded(&l.pools, func(i int) uint32 { return l.pools.code[len(l.h.Pools)+from+i] })
	each(s, func(i int) bool { return rows[i].Expandable })
	each(s, func(i int) uint32 { return rows[i].Stack })
	s.coded(&l.sites, func(i int) uint32 { return l.sites.code[rows[i].Stack] })
}

func (l *snapshotLoad) segmentBlocks(s *sheet, from int) {
	rows, inside := l.h.Blocks[from:from+s.n], l.inside[from:]
	plain(s, inside[:s.n])
	each(s, func(i int) uint16 { return uint16(l.h.Segments[inside[i]].Device) })
	each(s, func(i int) uint64 { return rows[i].Address })
	each(s, func(i int) int64 { return rows[i].Size })
	// PyTorch leaves in a free block what its last user has asked for.
	eachOr(s, func(i int) (int64, bool) { return rows[i].Requested, rows[i].State != snapshot.Inactive })
	s.texts(func(i int) string { return string(rows[i].State) })
	each(s, func(i int) uint32 { return rows[i].Stack })
	s.coded(&l.sites, func(i int) uint32 { return l.sites.code[rows[i].Stack] })
}

func (l *snapshotLoad) stacks(s *sheet, from int) {
	each(s, func(i int) uint32 { return uint32(from + i) })
	each(s, func(i int) int32 { return int32(len(l.h.StackFrames(uint32(from + i)))) })
	s.coded(&l.sites, func(i int) uint32 { return l.sites.code[from+i] })
	s.texts(func(i int) string { return l.h.Path(uint32(from + i)) })
}

func (l *snapshotLoad) frames(s *sheet, from int) {
	rows := make([]snapshot.Frame, s.n)
	for i := range rows {
		rows[i] = l.h.Frame(uint32(from + i))
	}
	each(s, func(i int) uint32 { return uint32(from + i) })
	s.texts(func(i int) string { return rows[i].Name })
	s.texts(func(i int) string { return rows[i].File })
	each(s, func(i int) int32 { return int32(rows[i].Line) })
	each(s, func(i int) bool { return anatomy.Own(rows[i].File) })
}

// stackFrames fills the table behind the view frames. Its rows are numbered over all stacks, so a chunk may begin in
// the middle of a stack.
func (l *snapshotLoad) stackFrames(ctx context.Context, c *conn) error {
	var stack []uint32 // of each row: how many frames a file has in all is bounded by what reading it may take
	var depth []int32
	var frame []uint32
	for id := range uint32(l.h.Stacks()) {
		for k, f := range l.h.StackFrames(id) {
			stack, depth, frame = append(stack, id), append(depth, int32(k)), append(frame, f)
		}
	}
	return fillTable(ctx, c, "store", "stack_frames", len(frame), func(s *sheet, from int) {
		plain(s, stack[from:from+s.n])
		plain(s, depth[from:from+s.n])
		plain(s, frame[from:from+s.n])
	})
}

func (l *snapshotLoad) annotations(s *sheet, from int) {
	rows := l.h.Annotations[from : from+s.n]
	eachOr(s, func(i int) (int64, bool) { return rows[i].Time, rows[i].Time != 0 })
	each(s, func(i int) int32 { return int32(rows[i].Device) })
	s.texts(func(i int) string { return rows[i].Stage })
	s.texts(func(i int) string { return rows[i].Name })
}

func (l *snapshotLoad) settings(s *sheet, from int) {
	s.texts(func(i int) string { return l.h.Settings[from+i].Name })
	s.texts(func(i int) string { return settingText(l.h.Settings[from+i].Value) })
}

// settingText returns a setting's value: a text as it is, everything else as JSON.
func settingText(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case []snapshot.Setting:
		members := map[string]string{}
		for _, m := range v {
			members[m.Name] = settingText(m.Value)
		}
		v2, _ := json.Marshal(members) // texts can be marshalled
		return string(v2)
	}
	return fmt.Sprint(v)
}

// iteration is a row of iterations.
type iteration struct {
	device             uint16
	number             int32
	first, last        int32
	floor, peak, after int64
}

// iterations fills the table of that name. Events after the last start belong to an iteration too, though perhaps to an
// incomplete one.
func (l *snapshotLoad) iterations(ctx context.Context, c *conn) error {
	var rows []iteration
	for _, d := range l.h.Devices {
		starts := d.Iterations.Starts
		for k, first := range starts {
			last := d.To - 1
			if k+1 < len(starts) {
				last = starts[k+1] - 1
			}
			live := l.h.Live[first : last+1]
			rows = append(rows, iteration{
				uint16(d.Number), int32(k), int32(first), int32(last), slices.Min(live), slices.Max(live),
				live[len(live)-1],
			})
		}
	}
	return fillTable(ctx, c, "main", "iterations", len(rows), func(s *sheet, from int) {
		rows := rows[from:]
		each(s, func(i int) uint16 { return rows[i].device })
		each(s, func(i int) int32 { return rows[i].number })
		each(s, func(i int) int32 { return rows[i].first })
		each(s, func(i int) int32 { return rows[i].last })
		eachOr(s, func(i int) (int64, bool) { return l.time(rows[i].first) })
		eachOr(s, func(i int) (int64, bool) { return l.time(rows[i].last) })
		each(s, func(i int) int64 { return rows[i].floor })
		each(s, func(i int) int64 { return rows[i].peak })
		each(s, func(i int) int64 { return rows[i].after })
	})
}
