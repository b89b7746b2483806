package snapshot

import (
	"fmt"
)

// Opening is what an allocator had before the first event of a history.
type Opening struct {
	Reserved int64       // bytes from the driver; 0 where nobody says
	Live     []LiveBlock // what the program held, by address
	Segments []Span      // by address; nil where nobody says
	Mapped   []Mapped    // memory behind the addresses of expandable segments, by address
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

// Mapped is a stretch of an expandable segment that has memory; Small says that it serves the small pool.
type Mapped struct {
	Span
	Small bool
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
		t.Opening, t.Events = s.rewind(device, events)
	}
	if len(events) == 0 {
		return nil, fmt.Errorf("device %d has no history: record one with torch.cuda.memory._record_memory_history()", device)
	}
	t.Recorded = recorded(t.Opening.Reserved, events)
	return t, nil
}

// recorded follows the reserved bytes; nil where the file never speaks of segments.
func recorded(start int64, events []Event) *Recorded {
	burst := Burst(events)
	for i := range burst {
		start -= events[i].Size
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

// Burst is how many events at the beginning of a history give memory back: it was recorded from an empty_cache on, and what that
// left is what it begins with.
func Burst(events []Event) (n int) {
	for n < len(events) && (events[n].Action == SegmentFree || events[n].Action == SegmentUnmap) {
		n++
	}
	return n
}
