package snapshot

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Snapshot is the state of an allocator at one moment and, where it was recorded, how it came to it. Sizes are in
// bytes.
type Snapshot struct {
	Segments    []Segment
	Traces      [][]Event    // by device, each oldest first; the history may begin long after the allocator did
	Annotations []Annotation // what the user marked, oldest first
	Settings    []Setting    // of the allocator, in the file's order
	// Openings says, for files that do, what was there before the first event of a device. From a snapshot with
	// segments it follows: see Trace.
	Openings map[int]Opening
}

// Segment is memory that an allocator has from the driver. Its blocks tile it.
type Segment struct {
	Device     int
	Address    uint64
	Size       int64 // PyTorch: total_size
	Allocated  int64 // in blocks that the program holds
	Active     int64 // the same and blocks that wait for a stream
	Requested  int64 // what the program asked for, before rounding; 0 where the file does not say
	Stream     uint64
	Kind       string // "small" or "large"
	Pool       [2]int64
	Expandable bool
	Frames     []Frame
	Blocks     []Block
}

// BlockState is what a block is doing; the names are PyTorch's.
type BlockState string

const (
	Allocated BlockState = "active_allocated"
	// freed by the program, still used by a stream; older: active_awaiting_free
	PendingFree BlockState = "active_pending_free"
	Inactive    BlockState = "inactive"
)

// Block is a piece of a segment.
type Block struct {
	Address   uint64
	Size      int64
	Requested int64 // before rounding; equals Size where the file does not say
	State     BlockState
	Frames    []Frame // who allocated it, innermost first
}

// Action is what an event tells; the names are PyTorch's.
type Action string

const (
	Alloc         Action = "alloc"
	FreeRequested Action = "free_requested"
	FreeCompleted Action = "free_completed"
	SegmentAlloc  Action = "segment_alloc"
	SegmentFree   Action = "segment_free"
	SegmentMap    Action = "segment_map"
	SegmentUnmap  Action = "segment_unmap"
	OOM           Action = "oom"
	Taken         Action = "snapshot"
)

// Event is one thing that an allocator did.
type Event struct {
	Action     Action
	Device     int
	Addr       uint64
	Size       int64
	Stream     uint64
	Time       int64 // µs since the epoch; 0 where the file does not say
	Thread     uint64
	DeviceFree int64   // with OOM: bytes that the driver still had
	Frames     []Frame // innermost first; events of one place share them
	Context    string  // torch.compile's name for the graph
	Metadata   string  // what the user attached
}

// Frame is a line of a stack.
type Frame struct {
	File string
	Line int
	Name string
}

// Annotation is a mark that the user set (record_function): "START" or "END" of a named stage.
type Annotation struct {
	Stage  string
	Name   string
	Device int
	Time   int64 // µs since the epoch
}

// Setting is one of an allocator's options, such as max_split_size.
type Setting struct {
	Name string
	// Value is a string, an int64, a float64, a bool, nil, or []Setting where the file has a dict of those.
	Value any
}

// Reserved is what the allocator holds of a device: the sum over its segments.
func (s *Snapshot) Reserved(device int) (total int64) {
	for _, g := range s.Segments {
		if g.Device == device {
			total += g.Size
		}
	}
	return total
}

// Devices lists the devices that have segments, events or an opening.
func (s *Snapshot) Devices() []int {
	seen := map[int]bool{}
	for _, g := range s.Segments {
		seen[g.Device] = true
	}
	for d, events := range s.Traces {
		if len(events) > 0 {
			seen[d] = true
		}
	}
	for d := range s.Openings {
		seen[d] = true
	}
	out := make([]int, 0, len(seen))
	for d := range seen {
		out = append(out, d)
	}
	slices.Sort(out)
	return out
}

// Events is the history of a device; nil where there is none.
func (s *Snapshot) Events(device int) []Event {
	if device < 0 || device >= len(s.Traces) {
		return nil
	}
	return s.Traces[device]
}

// WithAllocations are the devices that have a history of allocations.
func (s *Snapshot) WithAllocations() []int {
	var out []int
	for d, events := range s.Traces {
		if slices.ContainsFunc(events, func(e Event) bool { return e.Action == Alloc }) {
			out = append(out, d)
		}
	}
	return out
}

// maxDevices bounds a device's number: the largest machine that one process sees has 16 to 72 GPUs.
const maxDevices = 1024

// addEvent files an event under its device.
func (s *Snapshot) addEvent(e Event) {
	for len(s.Traces) <= e.Device {
		s.Traces = append(s.Traces, nil)
	}
	s.Traces[e.Device] = append(s.Traces[e.Device], e)
}

// Check tells whether the segments hang together: blocks tile their segment and segments don't overlap.
func (s *Snapshot) Check() error {
	bySpace := slices.Clone(s.Segments)
	order.By(bySpace, func(a, b Segment) int {
		return cmp.Or(cmp.Compare(a.Device, b.Device), cmp.Compare(a.Address, b.Address))
	})
	for i, g := range bySpace {
		at := g.Address
		for j, b := range g.Blocks {
			if b.Address != at {
				return fmt.Errorf("segment at 0x%x: block %d begins at 0x%x, not at 0x%x where the last one ended",
					g.Address, j, b.Address, at)
			}
			at += uint64(b.Size)
		}
		if len(g.Blocks) > 0 && at != g.Address+uint64(g.Size) {
			return fmt.Errorf("segment at 0x%x: its blocks have %d bytes, it has %d", g.Address, at-g.Address, g.Size)
		}
		if i > 0 && bySpace[i-1].Device == g.Device && bySpace[i-1].Address+uint64(bySpace[i-1].Size) > g.Address {
			return fmt.Errorf("segments at 0x%x and 0x%x overlap", bySpace[i-1].Address, g.Address)
		}
	}
	return nil
}
