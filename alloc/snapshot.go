package alloc

import (
	"cmp"
	"slices"
	"unsafe"
)

// Snapshot is the whole state at one instant.
type Snapshot struct {
	Device   int
	Policy   Policy
	Segments []Segment // by address
	Events   []Event   // oldest first, the newest Options.EventCapacity
	Dropped  uint64    // events that were recorded before those
	stacks   *stacks
}

// Segment is memory got from the driver in one piece; of virtual segments each contiguous range that has memory.
type Segment struct {
	Addr      uint64
	Size      int64
	Stream    Stream
	Large     bool
	Virtual   bool
	Allocated int64 // bytes of live blocks
	Active    int64 // bytes of live and pending blocks
	Requested int64 // what the owners of active blocks requested
	Blocks    []Block
}

// BlockState is a block's state in a snapshot.
type BlockState string

const (
	BlockLive    BlockState = "active_allocated"    // the names are PyTorch's
	BlockPending BlockState = "active_pending_free" // freed, still in use on another stream
	BlockFree    BlockState = "inactive"
)

// Block is a part of a segment.
type Block struct {
	Addr      uint64
	Size      int64
	Requested int64 // bytes that the owner requested; 0 of free blocks
	State     BlockState
	Refs      int
	Stack     StackID // of the allocation
	Born      int64   // ns since the Unix epoch; 0 where events are not recorded
}

// Stack returns an interned stack's frames, innermost first.
func (s *Snapshot) Stack(id StackID) []Frame {
	if s.stacks == nil {
		return nil
	}
	return s.stacks.frames(id)
}

// captured is a snapshot's copy of a shard, taken while all are stopped.
type captured struct {
	blocks []block
	segs   []segment
	view   view
	stream Stream
}

func (a *Allocator) capture() []captured {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	all := *a.shards.Load()
	parts := make([]captured, len(all))
	for i, s := range all {
		parts[i] = captured{slices.Clone(s.blocks.at), slices.Clone(s.segs.at), s.ring.view(s.stream), s.stream}
	}
	return parts
}

// Snapshot takes the state. The allocator stops while its blocks are copied; events are shared, not copied.
func (a *Allocator) Snapshot() *Snapshot {
	parts := a.capture()
	times := a.clock.timeline()
	out := &Snapshot{Device: a.opt.Device, Policy: a.r.policy, stacks: a.stacks}
	var seen uint64
	for i := range parts {
		p := &parts[i]
		out.addSegments(p.segs, p.blocks, p.stream, &times)
		out.Events = p.view.events(out.Events, &times)
		seen += p.view.total
	}
	slices.SortFunc(out.Segments, func(x, y Segment) int { return cmp.Compare(x.Addr, y.Addr) })
	if len(parts) > 1 {
		slices.SortStableFunc(out.Events, func(x, y Event) int { return cmp.Compare(x.Time, y.Time) })
	}
	if n := len(out.Events) - a.opt.EventCapacity; n > 0 {
		out.Events = out.Events[n:]
	}
	out.Dropped = seen - uint64(len(out.Events))
	return out
}

func (s *Snapshot) addSegments(segs []segment, blocks []block, stream Stream, times *timeline) {
	for i := range segs {
		seg := &segs[i]
		if !seg.used {
			continue
		}
		var cur *Segment
		for id := seg.first; id != 0; id = blocks[id].next {
			b := &blocks[id]
			if b.state == unmapped {
				cur = nil
				continue
			}
			if cur == nil {
				s.Segments = append(s.Segments, Segment{Addr: b.addr, Stream: stream, Large: seg.large,
					Virtual: seg.virtual})
				cur = &s.Segments[len(s.Segments)-1]
			}
			cur.add(b, times)
		}
	}
}

func (s *Segment) add(b *block, times *timeline) {
	out := Block{Addr: b.addr, Size: b.size, Requested: b.requested, State: BlockFree, Refs: int(b.refs),
		Stack: b.stack}
	if b.since != 0 {
		out.Born = times.at(b.since)
	}
	s.Size += b.size
	switch b.state {
	case live:
		out.State = BlockLive
		s.Allocated += b.size
		s.Active += b.size
	case pending:
		out.State = BlockPending
		s.Active += b.size
	default:
		out.Born = 0
	}
	s.Requested += b.requested
	s.Blocks = append(s.Blocks, out)
}

// Stack returns an interned stack's frames, innermost first; nil for 0.
func (a *Allocator) Stack(id StackID) []Frame { return a.stacks.frames(id) }

// InternStack keeps frames, innermost first, and returns their number for Request.Stack: the same number for the same
// frames.
func (a *Allocator) InternStack(frames []Frame) StackID { return a.stacks.framesOf(frames) }

// BlockOf describes the live block at p.
func (a *Allocator) BlockOf(p Ptr) (Block, error) {
	s, slot := a.find(p)
	if s == nil {
		return Block{}, a.misuse("look up", p, ErrDoubleFree)
	}
	defer s.mu.Unlock()
	b := &s.blocks.at[s.index.id(slot)]
	return Block{Addr: b.addr, Size: b.size, Requested: b.requested, State: BlockLive, Refs: int(b.refs),
		Stack: b.stack}, nil
}

// Footprint returns about how many bytes the allocator's own tables take: blocks, index and events.
func (a *Allocator) Footprint() int64 {
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	var n uintptr
	for _, s := range *a.shards.Load() {
		n += unsafe.Sizeof(*s) + uintptr(cap(s.blocks.at))*unsafe.Sizeof(block{}) +
			uintptr(cap(s.segs.at))*unsafe.Sizeof(segment{})
		n += uintptr(len(s.index.slots))*8 + uintptr(len(s.ring.chunks))*unsafe.Sizeof(chunk{})
	}
	return int64(n)
}
