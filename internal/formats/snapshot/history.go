package snapshot

import (
	"bytes"
	"math"
	"slices"
)

// History is what the allocator of one device did, oldest first, in columns: 27 bytes an event, without stacks. That of
// Columns shares their memory.
type History struct {
	Action  []uint8  // IsAlloc, IsFreeRequested, …; from knownActions on it is nothing that can be replayed
	Addr    []uint64 // see Columns
	Size    []int64  // bytes
	Time    []int64  // µs since the epoch; 0 where the file does not say
	Stream  []uint16 // index in Streams
	Streams []uint64

	places map[uint64]uint16 // in Streams; nil until an event is added
}

// Step is an event of a history.
type Step struct {
	Addr, Stream uint64
	Size, Time   int64
	Action       uint8
}

// Len is how many events there are.
func (h *History) Len() int { return len(h.Action) }

// At is an event by its number.
func (h *History) At(i int) Step {
	return Step{h.Addr[i], h.Streams[h.Stream[i]], h.Size[i], h.Time[i], h.Action[i]}
}

// HistoryOf puts events into columns.
func HistoryOf(events ...Event) History {
	n := len(events)
	h := History{
		Action: make([]uint8, 0, n), Addr: make([]uint64, 0, n), Size: make([]int64, 0, n), Time: make([]int64, 0, n),
		Stream: make([]uint16, 0, n),
	}
	h.Add(events...)
	return h
}

// Add appends events.
func (h *History) Add(events ...Event) {
	for i := range events {
		e := &events[i]
		h.Action = append(h.Action, actionIndex(e.Action))
		h.Addr = append(h.Addr, e.addrColumn())
		h.Size = append(h.Size, e.Size)
		h.Time = append(h.Time, e.Time)
		h.Stream = append(h.Stream, h.place(e.Stream))
	}
}

// addrColumn is what stands in the column Addr.
func (e *Event) addrColumn() uint64 {
	if e.Action == OOM {
		return uint64(e.DeviceFree)
	}
	return e.Addr
}

func actionIndex(a Action) uint8 {
	for i, name := range actionNames {
		if name == a {
			return uint8(i)
		}
	}
	return knownActions
}

// place is where a stream stands in the list. What a history has beyond 65,536 shares the last place; PyTorch makes 32
// streams a priority and device.
func (h *History) place(stream uint64) uint16 {
	if len(h.Streams) > 0 && h.Streams[0] == stream {
		return 0
	}
	if h.places == nil {
		h.places = map[uint64]uint16{}
	}
	place, ok := h.places[stream]
	if !ok {
		if len(h.Streams) <= math.MaxUint16 {
			h.Streams = append(h.Streams, stream)
		}
		place = uint16(len(h.Streams) - 1)
		h.places[stream] = place
	}
	return place
}

// own makes the streams of a history its own: they may be changed then.
func (h *History) own() {
	h.Stream, h.Streams, h.places = slices.Clone(h.Stream), slices.Clone(h.Streams), map[uint64]uint16{}
	for i, stream := range h.Streams {
		h.places[stream] = uint16(i)
	}
}

// history is the events of a device.
func (c *Columns) history(device int) History {
	for _, r := range c.Rows {
		if r.Device == device {
			return History{
				Action: c.Action[r.From:r.To], Addr: c.Addr[r.From:r.To], Size: c.Size[r.From:r.To],
				Time: c.Time[r.From:r.To], Stream: c.Stream[r.From:r.To], Streams: c.Streams,
			}
		}
	}
	return History{}
}

// allocates tells whether there is an allocation in it.
func (h *History) allocates() bool { return bytes.IndexByte(h.Action, IsAlloc) >= 0 }

// Burst is how many events at the beginning give memory back: a history that begins with such was recorded from an
// empty_cache on, and what that left is what it begins with.
func (h *History) Burst() (n int) {
	for n < h.Len() && (h.Action[n] == IsSegmentFree || h.Action[n] == IsSegmentUnmap) {
		n++
	}
	return n
}
