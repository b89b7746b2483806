package anatomy

import (
	"sync"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// None stands for a row that is not in the file.
const None = -1

// History is a snapshot with what follows from its events. Sizes are in bytes; a row is an index in the columns.
type History struct {
	*snapshot.Columns
	// Live is what the program holds on the event's device after the event: what it asked for, before rounding. A block
	// counts from its alloc to its free_completed, as in PyTorch's own viewer.
	Live []int64
	// Partner is the row of the free_completed of an alloc, and the reverse; None where the file does not have it.
	Partner []int32
	Devices []*Device // those with events or segments, by number

	sites  []site  // by stack
	phases []phase // by stack
}

// Device is one device's part of a history.
type Device struct {
	Number   int
	From, To int // its rows
	// Before is what was live when the history began. It is known where the file has the device's segments; else it is
	// what the history frees without having allocated it: the least that it can have been.
	Before      int64
	BeforeKnown bool
	Peak        int     // the row after which most was live; From-1: before its first
	PeakLive    int64   // bytes
	Reserved    []Level // from the driver: at the beginning (row From-1), and after each event that changes it
	Old         []int   // blocks at the end that the history has no alloc of: in Blocks
	OldFrees    []int   // rows of frees whose alloc was before the history
	Segments    []int   // in Columns.Segments
	Iterations  Iterations
}

// Level is an amount from a row on.
type Level struct {
	Row   int
	Bytes int64
}

// New works out a history. The columns belong to it from now on.
func New(c *snapshot.Columns) *History {
	h := &History{Columns: c, Live: make([]int64, c.Len()), Partner: make([]int32, c.Len())}
	byNumber := map[int]*Device{}
	device := func(n int) *Device {
		if byNumber[n] == nil {
			byNumber[n] = &Device{Number: n, Peak: None} // row -1 is before the first
		}
		return byNumber[n]
	}
	for i, g := range c.Segments {
		d := device(g.Device)
		d.Segments = append(d.Segments, i)
	}
	for _, r := range c.Rows {
		d := device(r.Device)
		d.From, d.To = r.From, r.To
	}
	for _, r := range sortedKeys(byNumber) {
		d := byNumber[r]
		h.follow(d)
		h.Devices = append(h.Devices, d)
	}
	h.sites, h.phases = sitesOf(c), phasesOf(c)
	for _, d := range h.Devices {
		d.Iterations = h.iterationsOf(d)
	}
	return h
}

// Told lists the devices that a moment can be told of: those with events, or, where the file has none at all, those
// with segments, which say what is live.
func (h *History) Told() (list []*Device) {
	for _, d := range h.Devices {
		if d.From < d.To {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return h.Devices
	}
	return list
}

// EndRow is the last row, or the one before the first.
func (d *Device) EndRow() int { return d.To - 1 }

// liveAfter is what was requested and live after a row of a device, or before its first.
func (h *History) liveAfter(d *Device, row int) int64 {
	if row < d.From {
		return d.Before
	}
	return h.Live[row]
}

// follow pairs the events of a device on one core, and counts live and reserved bytes on another.
func (h *History) follow(d *Device) {
	var open *addresses
	var pairing sync.WaitGroup
	pairing.Go(func() { open = h.pair(d) })
	h.count(d)
	h.reserve(d)
	pairing.Wait()
	d.BeforeKnown = len(d.Segments) > 0 || d.From == d.To
	d.Before = h.before(d, open)
	if d.Before != 0 {
		live := h.Live[d.From:d.To]
		for i := range live {
			live[i] += d.Before
		}
	}
	d.PeakLive = h.liveAfter(d, d.Peak)
}

// count follows what is live, as if there had been nothing before the first event, and finds the peak.
func (h *History) count(d *Device) {
	var live, most int64
	d.Peak = d.From - 1
	for i := d.From; i < d.To; i++ {
		switch h.Action[i] {
		case snapshot.IsAlloc:
			live += h.Size[i]
		case snapshot.IsFreeCompleted:
			live -= h.Size[i]
		}
		h.Live[i] = live
		if live > most {
			d.Peak, most = i, live
		}
	}
}

// pair finds for each free its alloc. What it returns are the rows of allocs that nobody has freed, by address.
func (h *History) pair(d *Device) *addresses {
	open := newAddresses()
	for i := d.From; i < d.To; i++ {
		h.Partner[i] = None
		switch h.Action[i] {
		case snapshot.IsAlloc:
			open.put(h.Addr[i], int32(i))
		case snapshot.IsFreeCompleted:
			row, ok := open.take(h.Addr[i])
			if !ok {
				d.OldFrees = append(d.OldFrees, i)
				continue
			}
			h.Partner[i], h.Partner[row] = row, int32(i)
		}
	}
	return open
}

// before is what was live before the first event: what has been freed since, and what is still there.
func (h *History) before(d *Device, open *addresses) (bytes int64) {
	for _, i := range d.OldFrees {
		bytes += h.Size[i]
	}
	for _, s := range d.Segments {
		for b := h.Columns.Segments[s].From; b < h.Columns.Segments[s].To; b++ {
			block := &h.Blocks[b]
			if block.State == snapshot.Inactive {
				continue
			}
			if _, ok := open.get(block.Address); !ok {
				d.Old = append(d.Old, b)
				bytes += block.Requested
			}
		}
	}
	return bytes
}

// reserve follows what the device's allocator has from the driver. Without segments the lowest level is taken for none.
func (h *History) reserve(d *Device) {
	var total int64
	for _, s := range d.Segments {
		total += h.Columns.Segments[s].Size
	}
	levels := []Level{{Row: d.From - 1}}
	var at, lowest int64
	for i := d.From; i < d.To; i++ {
		switch h.Action[i] {
		case snapshot.IsSegmentAlloc, snapshot.IsSegmentMap:
			at += h.Size[i]
		case snapshot.IsSegmentFree, snapshot.IsSegmentUnmap:
			at -= h.Size[i]
		default:
			continue
		}
		levels = append(levels, Level{i, at})
		lowest = min(lowest, at)
	}
	start := total - at
	if len(d.Segments) == 0 {
		start = -lowest
	}
	for i := range levels {
		levels[i].Bytes += start
	}
	d.Reserved = levels
}

// ReservedAt is what the device's allocator has from the driver after a row.
func (d *Device) ReservedAt(row int) int64 { return d.Reserved[d.levelAt(row)].Bytes }

// levelAt is the one of Reserved that holds after a row.
func (d *Device) levelAt(row int) int {
	lo, hi := 0, len(d.Reserved)
	for lo+1 < hi {
		if m := (lo + hi) / 2; d.Reserved[m].Row <= row {
			lo = m
		} else {
			hi = m
		}
	}
	return lo
}

// PeakReserved is the highest level of reserved memory, and the row from which on it was reached.
func (d *Device) PeakReserved() Level {
	top := d.Reserved[0]
	for _, l := range d.Reserved {
		if l.Bytes > top.Bytes {
			top = l
		}
	}
	return top
}

// aliveAt says whether an alloc's block is live after the row.
func (h *History) aliveAt(alloc, row int) bool {
	return alloc <= row && (h.Partner[alloc] == None || int(h.Partner[alloc]) > row)
}
