package anatomy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"

	"github.com/memgauge/memgauge/internal/snapshot"
	"github.com/memgauge/memgauge/internal/units"
)

// WritePerfetto writes the history as a trace of Chrome's JSON format, which ui.perfetto.dev opens: for each device
// live and reserved bytes and live bytes by use as counters, iterations and annotations as slices, OOMs as marks. Times
// are µs after the first event of the file, or numbers of events where it has no times. It ends when ctx does.
//
// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format)
func (h *History) WritePerfetto(ctx context.Context, w io.Writer) error {
	p := &perfetto{ctx: ctx, w: bufio.NewWriterSize(w, 1<<16), h: h, uses: h.Uses()}
	p.origin = h.firstMoment()
	p.text(`{"displayTimeUnit":"ms","traceEvents":[`)
	for _, d := range h.Devices {
		p.device(d)
	}
	p.text("\n]}\n")
	if p.err == nil {
		p.err = p.w.Flush()
	}
	if p.err != nil {
		return fmt.Errorf("write trace: %w", p.err)
	}
	return nil
}

// maxPoints is how many moments of a device are drawn. Perfetto takes a second for each million of points; of a longer
// history the lowest, the highest and the last level of equal stretches of time are drawn.
const maxPoints = 200_000

type perfetto struct {
	ctx    context.Context
	w      *bufio.Writer
	h      *History
	uses   []Category // by row
	origin int64      // µs since the epoch
	begun  bool       // an event is written
	err    error
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

func (p *perfetto) text(s string) {
	if p.err == nil {
		_, p.err = p.w.WriteString(s)
	}
}

// event writes one; rest are its other members, each with a comma before it.
func (p *perfetto) event(kind string, d *Device, name string, ts int64, rest string) {
	if p.err == nil {
		p.err = p.ctx.Err()
	}
	if p.err != nil {
		return
	}
	if p.begun {
		p.text(",")
	}
	p.begun = true
	quoted, _ := json.Marshal(name) // a text can be marshalled
	p.text("\n" + `{"ph":"` + kind + `","pid":` + strconv.Itoa(d.Number) + `,"name":` + string(quoted) + `,"ts":` +
		strconv.FormatInt(ts, 10) + rest + "}")
}

func (p *perfetto) counter(d *Device, name string, ts, bytes int64) {
	p.event("C", d, name, ts, `,"args":{"bytes":`+strconv.FormatInt(bytes, 10)+`}`)
}

// slice writes a stretch of time on one of the device's lines.
func (p *perfetto) slice(d *Device, line int, name string, from, to int64) {
	p.event("X", d, name, from, fmt.Sprintf(`,"tid":%d,"dur":%d`, line, max(0, to-from)))
}

func (p *perfetto) device(d *Device) {
	p.event("M", d, "process_name", 0, fmt.Sprintf(`,"args":{"name":"device %d"}`, d.Number))
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
			p.event("i", d, "OOM: asked for "+units.Bytes(p.h.Size[i]).String(), p.moment(d, i), `,"s":"p"`)
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
			p.counter(d, "reserved", at, now)
			reserved = now
		}
		if p.count(&byUse, i) {
			p.counter(d, "live", at, p.h.Live[i])
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
		p.counter(d, "live", at, x.Min)
		p.counter(d, "live", at+step, x.Max)
		p.counter(d, "live", at+2*step, x.Last)
		p.counter(d, "reserved", at, x.ReservedMax)
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
	args := ""
	for c, bytes := range byUse {
		if c > 0 {
			args += ","
		}
		args += `"` + Category(c).String() + `":` + strconv.FormatInt(bytes, 10)
	}
	p.event("C", d, "live by use", at, `,"args":{`+args+"}")
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
		p.slice(d, iterationLine, "iteration "+strconv.Itoa(k), p.moment(d, row), p.moment(d, end))
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
			p.slice(d, annotationLine, a.Name, starts[len(starts)-1]-p.origin, a.Time-p.origin)
			open[a.Name] = starts[:len(starts)-1]
		}
	}
	last := p.h.Time[d.To-1]
	for _, name := range sortedKeys(open) {
		for _, start := range open[name] {
			p.slice(d, annotationLine, name, start-p.origin, last-p.origin)
		}
	}
}
