package anatomy

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Frames of a graph by segment that stand for what no stack has.
const (
	freeFrame  = "free"
	roundFrame = "rounding"
	restFrame  = "rest too small to split off"
	waitFrame  = "freed, waits for a stream"
)

// FlameSegments adds to a graph what a device's allocator had from the driver at the end: by pool and segment the
// blocks by their stacks, what they have beyond what was asked for, and what is free. Its sum is what was reserved.
func (h *History) FlameSegments(g *flame.Graph, d *Device) {
	for _, s := range d.Segments {
		row := &h.Columns.Segments[s]
		outer := []flame.Frame{{Name: h.segmentName(row)}, {Name: h.poolName(row)}}
		add := func(inner []flame.Frame, bytes int64) {
			if bytes > 0 {
				g.Add(append(inner[:len(inner):len(inner)], outer...), bytes, false)
			}
		}
		used := int64(0)
		for i := row.From; i < row.To; i++ {
			b := &h.Blocks[i]
			if b.State == snapshot.Inactive {
				continue
			}
			used += b.Size
			stack := Told(h.framesOf(b.Stack))
			if b.State == snapshot.PendingFree {
				stack = append([]flame.Frame{{Name: waitFrame}}, stack...)
			}
			rounding, rest := Lost(b)
			add(stack, b.Size-rounding-rest)
			add([]flame.Frame{{Name: roundFrame}}, rounding)
			add([]flame.Frame{{Name: restFrame}}, rest)
		}
		add([]flame.Frame{{Name: freeFrame}}, row.Size-used)
	}
}

func (h *History) segmentName(s *snapshot.SegmentRow) string {
	name := fmt.Sprintf("segment %#x, %s", s.Address, units.Bytes(s.Size))
	if s.Expandable {
		name += ", expandable"
	}
	return name
}

func (h *History) poolName(s *snapshot.SegmentRow) string {
	name := "pool"
	if kind := h.Text(s.Kind); kind != "" {
		name = kind + " pool"
	}
	if s.Pool != ([2]int64{}) {
		name += fmt.Sprintf(" %d:%d", s.Pool[0], s.Pool[1])
	}
	if s.Stream != 0 {
		name += fmt.Sprintf(", stream %#x", s.Stream)
	}
	return name
}
