package snapshot

import (
	"errors"
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

// Trace is what one device's allocator was asked, from a known opening: what can be replayed against another allocator.
// The events include what the recorded allocator itself did with the driver (SegmentAlloc and so on), which is the
// truth to compare with.
type Trace struct {
	Device int
	Opening
	Events History
	// Settings are the recorded allocator's, where the file has them.
	Settings []Setting
	// Recorded is how the recorded allocator's reserved bytes went; nil where the file has no segment events.
	Recorded *Recorded

	columns *Columns // that have the events; nil if those are by themselves
}

// Close gives back the memory of the events. The rest of the trace may still be used.
func (t *Trace) Close() {
	if t.columns != nil {
		t.columns.Close()
	}
	t.Events = History{}
}

// Recorded is what the allocator that was recorded reserved.
type Recorded struct {
	// Peak is the most bytes reserved, after the opening's burst of segment_free: a history that begins with one was
	// begun right after an empty_cache.
	Peak       int64
	End        int64
	SegmentOps int // segment_alloc, _free, _map, _unmap, after that burst
}

// ErrNoHistory says that the file has no events of a device.
var ErrNoHistory = errors.New("no history of its allocator was recorded")

// Trace prepares the history of a device for a replay. Where the file says what was there at first, that is the
// opening; otherwise it is worked out from the final segments by going through the events backwards.
func (s *Snapshot) Trace(device int) (*Trace, error) {
	return s.trace(device, HistoryOf(s.Events(device)...))
}

// Trace is the same of columns, whose memory it shares: they must stay open as long as its events are used.
func (c *Columns) Trace(device int) (*Trace, error) {
	s := &Snapshot{Settings: c.Settings}
	for _, g := range c.Segments {
		s.Segments = append(s.Segments, c.segment(g))
	}
	return s.trace(device, c.history(device))
}

func (s *Snapshot) trace(device int, h History) (*Trace, error) {
	if h.Len() == 0 {
		return nil, fmt.Errorf("device %d: %w", device, ErrNoHistory)
	}
	t := &Trace{Device: device, Events: h, Settings: s.Settings}
	if o, ok := s.Openings[device]; ok {
		t.Opening = o
	} else {
		t.Opening = rewind(s.Segments, device, &t.Events)
	}
	t.Recorded = recorded(t.Opening.Reserved, &t.Events)
	return t, nil
}

// recorded follows the reserved bytes; nil where the file never speaks of segments.
func recorded(start int64, h *History) *Recorded {
	burst := h.Burst()
	for i := range burst {
		start -= h.Size[i]
	}
	r := &Recorded{Peak: start, End: start}
	for i := burst; i < h.Len(); i++ {
		switch h.Action[i] {
		case IsSegmentAlloc, IsSegmentMap:
			r.End += h.Size[i]
		case IsSegmentFree, IsSegmentUnmap:
			r.End -= h.Size[i]
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
