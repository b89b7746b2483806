package anatomy

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/formats/traceevent"
)

// WritePerfetto writes the history as a trace of Chrome's JSON format, which ui.perfetto.dev opens: for each device
// live and reserved bytes and live bytes by use as counters, iterations and annotations as slices, OOMs as marks. Times
// are µs after the first event of the file, or numbers of events where it has no times. It ends when ctx does.
func (h *History) WritePerfetto(ctx context.Context, w io.Writer) error {
	p := &perfetto{Writer: traceevent.New(ctx, w), h: h, uses: h.Uses()}
	p.origin = h.firstMoment()
	for _, d := range h.Devices {
		p.device(d)
	}
	return p.Close()
}

// maxPoints is how many moments of a device are drawn. Perfetto takes a second for each million of points; of a longer
// history the lowest, the highest and the last level of equal stretches of time are drawn.
const maxPoints = 200_000

type perfetto struct {
	*traceevent.Writer
	h      *History
	uses   []Category // by row
	origin int64      // µs since the epoch
}

// firstMoment is the earliest of the devices' first ones.
func (h *History) firstMoment() (first int64) {
	for _, d := range h.Devices {
		if d.From < d.To && (first == 0 || h.Time[d.From] < first) {
			first = h.Time[d.From]
		}
	}
	return first
}

func (p *perfetto) device(d *Device) {
	p.Process(d.Number, fmt.Sprintf("device %d", d.Number))
	if d.From == d.To {
		return
	}
	if d.To-d.From <= maxPoints {
		p.everyEvent(d)
	} else {
		p.stretches(d)
	}
	p.iterations(d)
	p.annotations(d)
	for i := d.From; i < d.To; i++ {
		if p.h.Action[i] == snapshot.IsOOM {
			p.Mark(d.Number, "OOM: asked for "+units.Bytes(p.h.Size[i]).String(), p.moment(d, i))
		}
	}
}

// moment is a row's place on the axis.
func (p *perfetto) moment(d *Device, row int) int64 {
	if p.origin == 0 {
		return int64(row - d.From)
	}
	return p.h.Time[row] - p.origin
}

// everyEvent draws each level.
func (p *perfetto) everyEvent(d *Device) {
	byUse := p.before(d)
	reserved := int64(-1)
	for i := d.From; i < d.To; i++ {
		at := p.moment(d, i)
		if now := d.ReservedAt(i); now != reserved {
			p.Bytes(d.Number, "reserved", at, now)
			reserved = now
		}
		if p.count(&byUse, i) {
			p.Bytes(d.Number, "live", at, p.h.Live[i])
			p.byUse(d, at, &byUse)
		}
	}
}

// stretches draws the lowest, the highest and the last level of each stretch of time.
func (p *perfetto) stretches(d *Device) {
	tiles := p.h.Pyramid(d)
	from, to := tiles.Span()
	pixels := make([]Pixel, maxPoints)
	tiles.Tile(from, to+1, pixels)
	offset := from - p.origin
	if tiles.ByEvent {
		offset = 0
	}
	byUse, row := p.before(d), d.From
	for k, x := range pixels {
		if x.Events == 0 {
			continue
		}
		at := offset + int64(float64(to+1-from)*float64(k)/maxPoints)
		step := max(1, (to+1-from)/maxPoints/3)
		p.Bytes(d.Number, "live", at, x.Min)
		p.Bytes(d.Number, "live", at+step, x.Max)
		p.Bytes(d.Number, "live", at+2*step, x.Last)
		p.Bytes(d.Number, "reserved", at, x.ReservedMax)
		for end := row + x.Events; row < end; row++ {
			p.count(&byUse, row)
		}
		p.byUse(d, at+2*step, &byUse)
	}
}

// before is what was live by use when the history began.
func (p *perfetto) before(d *Device) (byUse [categories]int64) {
	for _, b := range d.Old {
		byUse[p.h.BlockCategory(b)] += p.h.Blocks[b].Requested
	}
	for _, i := range d.OldFrees {
		byUse[UnknownUse] += p.h.Size[i]
	}
	return byUse
}

// count follows a row; it says whether anything has changed.
func (p *perfetto) count(byUse *[categories]int64, row int) bool {
	switch p.h.Action[row] {
	case snapshot.IsAlloc:
		byUse[p.uses[row]] += p.h.Size[row]
	case snapshot.IsFreeCompleted:
		byUse[p.uses[row]] -= p.h.Size[row]
	default:
		return false
	}
	return true
}

func (p *perfetto) byUse(d *Device, at int64, byUse *[categories]int64) {
	values := make([]traceevent.Value, 0, categories)
	for c, bytes := range byUse {
		values = append(values, traceevent.Value{Name: Category(c).String(), Level: bytes})
	}
	p.Counter(d.Number, "live by use", at, values)
}

// Lines of a device's slices.
const (
	iterationLine = 1 + iota
	annotationLine
)

func (p *perfetto) iterations(d *Device) {
	starts := d.Iterations.Starts
	for k, row := range starts {
		end := d.To - 1
		if k+1 < len(starts) {
			end = starts[k+1]
		}
		p.Slice(d.Number, iterationLine, "iteration "+strconv.Itoa(k), p.moment(d, row), p.moment(d, end))
	}
}

// annotations writes each pair of START and END of one name; what has no end ends with the history.
func (p *perfetto) annotations(d *Device) {
	if p.origin == 0 {
		return // nothing says where they belong
	}
	open := map[string][]int64{}
	for _, a := range p.h.Annotations {
		if a.Device != d.Number && len(p.h.Devices) > 1 {
			continue
		}
		starts := open[a.Name]
		switch {
		case a.Stage == "START":
			open[a.Name] = append(starts, a.Time)
		case len(starts) > 0:
			p.Slice(d.Number, annotationLine, a.Name, starts[len(starts)-1]-p.origin, a.Time-p.origin)
			open[a.Name] = starts[:len(starts)-1]
		}
	}
	last := p.h.Time[d.To-1]
	for _, name := range sortedKeys(open) {
		for _, start := range open[name] {
			p.Slice(d.Number, annotationLine, name, start-p.origin, last-p.origin)
		}
	}
}
