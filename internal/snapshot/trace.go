package snapshot

import (
	"cmp"
	"fmt"
	"slices"
)

// Opening is what an allocator had before the first event of a history.
type Opening struct {
	Reserved int64       // bytes from the driver; 0 where nobody says
	Live     []LiveBlock // what the program held, by address
	Segments []Span      // by address; nil where nobody says
}

// LiveBlock is an allocation that nobody has freed.
type LiveBlock struct {
	Addr      uint64
	Requested int64
	Stream    uint64
}

// Span is a stretch of addresses.
type Span struct {
	Addr   uint64
	Size   int64
	Stream uint64
}

// Trace is what one device's allocator was asked, from a known opening: what can be replayed against another allocator. The
// events include what the recorded allocator itself did with the driver (SegmentAlloc and so on), which is the truth to
// compare with.
type Trace struct {
	Device int
	Opening
	Events []Event
	// Recorded is how the recorded allocator's reserved bytes went; nil where the file has no segment events.
	Recorded *Recorded
}

// Recorded is what the allocator that was recorded reserved.
type Recorded struct {
	// Peak is the most bytes reserved, after the opening's burst of segment_free: a history that begins with one was begun
	// right after an empty_cache.
	Peak       int64
	End        int64
	SegmentOps int // segment_alloc, _free, _map, _unmap, after that burst
}

// Trace prepares the history of a device for a replay. Where the file says what was there at first, that is the opening;
// otherwise it is worked out from the final segments by going through the events backwards.
func (s *Snapshot) Trace(device int) (*Trace, error) {
	events := s.Events(device)
	t := &Trace{Device: device, Events: events}
	if o, ok := s.Openings[device]; ok {
		t.Opening = o
	} else {
		t.Opening = s.rewind(device, events)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("device %d has no history: record one with torch.cuda.memory._record_memory_history()", device)
	}
	t.Recorded = recorded(t.Opening.Reserved, events)
	return t, nil
}

// rewind takes the events back, last first, from the state at the end.
func (s *Snapshot) rewind(device int, events []Event) Opening {
	live, segments := s.finalState(device)
	for i := len(events) - 1; i >= 0; i-- {
		switch e := &events[i]; e.Action {
		case Alloc:
			delete(live, e.Addr)
		case FreeCompleted:
			live[e.Addr] = LiveBlock{e.Addr, e.Size, e.Stream}
		case SegmentAlloc, SegmentMap:
			delete(segments, Span{e.Addr, e.Size, 0})
		case SegmentFree, SegmentUnmap:
			segments[Span{e.Addr, e.Size, 0}] = e.Stream
		}
	}
	o := Opening{}
	for _, b := range live {
		o.Live = append(o.Live, b)
	}
	for g, stream := range segments {
		o.Reserved += g.Size
		g.Stream = stream
		o.Segments = append(o.Segments, g)
	}
	slices.SortFunc(o.Live, func(a, b LiveBlock) int { return cmp.Compare(a.Addr, b.Addr) })
	slices.SortFunc(o.Segments, func(a, b Span) int { return cmp.Compare(a.Addr, b.Addr) })
	return o
}

// finalState is what the snapshot's segments say: live blocks by address, and each segment's stream.
func (s *Snapshot) finalState(device int) (map[uint64]LiveBlock, map[Span]uint64) {
	live, segments := map[uint64]LiveBlock{}, map[Span]uint64{}
	for _, g := range s.Segments {
		if g.Device != device {
			continue
		}
		segments[Span{g.Address, g.Size, 0}] = g.Stream
		for _, b := range g.Blocks {
			if b.State == Allocated || b.State == PendingFree {
				live[b.Address] = LiveBlock{b.Address, b.Requested, g.Stream}
			}
		}
	}
	return live, segments
}

// recorded follows the reserved bytes; nil where the file never speaks of segments.
func recorded(start int64, events []Event) *Recorded {
	burst := 0
	for ; burst < len(events) && (events[burst].Action == SegmentFree || events[burst].Action == SegmentUnmap); burst++ {
		start -= events[burst].Size
	}
	r := &Recorded{Peak: start, End: start}
	for i := burst; i < len(events); i++ {
		switch e := &events[i]; e.Action {
		case SegmentAlloc, SegmentMap:
			r.End += e.Size
		case SegmentFree, SegmentUnmap:
			r.End -= e.Size
		default:
			continue
		}
		r.SegmentOps++
		r.Peak = max(r.Peak, r.End)
	}
	if r.Peak == 0 && burst == 0 {
		return nil
	}
	return r
}
