package chart

import (
	"image/color"
	"math"
)

// Pixels of a picture.
const (
	width       = 1100
	headHeight  = 68
	panelHeight = 318
	rightMargin = 30 // half of the last text below an axis
)

// Colours of series that colour-blind readers can distinguish, and that differ in lightness when printed in grey (Okabe
// and Ito).
var palette = []color.RGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff}, {0xcc, 0x79, 0xa7, 0xff},
	{0x56, 0xb4, 0xe9, 0xff}, {0x8a, 0x6d, 0x3b, 0xff}, {0x55, 0x55, 0x55, 0xff},
}

var (
	alarm = color.RGBA{0xc6, 0x28, 0x28, 0xff}
	quiet = color.RGBA{0x66, 0x66, 0x66, 0xff}
	grid  = color.RGBA{0xe8, 0xe8, 0xe8, 0xff}
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
)

func (c Chart) height() int { return c.head() + panelHeight*max(1, len(c.Panels)) }

func (c Chart) head() int {
	if c.Title == "" && c.Note == "" {
		return 0
	}
	return headHeight
}

// drawOn draws the panels with their left edges on one line.
func (c Chart) drawOn(on canvas) {
	on.text(letters{21, ink, left}, point{18, 34}, c.Title)
	on.text(letters{15, quiet, left}, point{18, 57}, c.Note)
	texts := faces{}
	span := timeScale(c.duration())
	if c.Across != "" {
		span = scale{1, c.Across}
	}
	views := make([]*view, len(c.Panels))
	edge := 0.0
	for i, p := range c.Panels {
		unit := p.scale()
		x := axis{lo: c.Begin / span.per, hi: c.duration() / span.per, scale: span}
		v := &view{canvas: on, faces: texts, right: width - rightMargin, x: x, y: p.heights(unit)}
		v.top = float64(c.head() + panelHeight*i + 40)
		v.bottom = v.top + panelHeight - 96
		views[i] = v
		for _, t := range v.y.ticks() {
			edge = max(edge, texts.width(tickSize, t.label))
		}
	}
	for i, p := range c.Panels {
		views[i].left = edge + 30
		views[i].draw(p, c.Events, i == 0)
	}
}

// axis is a range of values in a unit.
type axis struct {
	lo, hi float64
	scale  scale
}

// part is where a value in base units lies between the axis's ends, 0 to 1.
func (a axis) part(v float64) float64 {
	return min(max((v/a.scale.per-a.lo)/(a.hi-a.lo), 0), 1)
}

// heights begin at zero if that wastes less than half of the height, and leave some room for the legend.
func (p Panel) heights(unit scale) axis {
	if p.Unit == Percent {
		return axis{0, 108, unit}
	}
	lo, hi := p.lowest(), p.highest()
	if len(p.Bars) > 0 {
		return axis{0, max(hi/unit.per*1.15, 1), unit}
	}
	for _, l := range p.Levels {
		if !p.far(l) {
			hi = max(hi, l.Value)
		}
	}
	if lo < hi/2 || len(p.Series) > 0 && p.Series[0].Area { // an area stands for an amount
		lo = 0
	}
	room := max(hi-lo, hi*0.02, unit.per*0.01)
	a := axis{max(0, lo-0.08*room) / unit.per, (hi + 0.25*room) / unit.per, unit}
	if lo == 0 {
		a.lo = 0
	}
	return a
}

// view is where a panel's values are drawn.
type view struct {
	canvas
	faces                    faces
	left, right, top, bottom float64 // pixels; bottom is the greater
	x, y                     axis
}

func (v *view) at(x, y float64) point {
	return point{v.left + v.x.part(x)*(v.right-v.left), v.bottom - v.y.part(y)*(v.bottom-v.top)}
}

const (
	tickSize  = 13.5
	labelSize = 15
)

func (v *view) draw(p Panel, events []Event, named bool) {
	v.text(letters{17, ink, centre}, point{(v.left + v.right) / 2, v.top - 14}, p.Title)
	v.text(letters{tickSize, quiet, right}, point{v.left - 10, v.top - 14}, v.y.scale.name)
	for _, t := range v.y.ticks() {
		at := v.at(0, t.value*v.y.scale.per)
		v.line(pen{grid, 1, nil}, []point{{v.left, at.y}, {v.right, at.y}})
		v.text(letters{tickSize, ink, right}, point{v.left - 10, at.y + 5}, t.label)
	}
	if len(p.Bars) > 0 {
		v.bars(p)
		return
	}
	for _, t := range v.x.ticks() {
		at := v.at(t.value*v.x.scale.per, 0)
		v.line(pen{grid, 1, nil}, []point{{at.x, v.top}, {at.x, v.bottom}})
		v.text(letters{tickSize, ink, centre}, point{at.x, v.bottom + 18}, t.label)
	}
	v.text(letters{labelSize, ink, centre}, point{(v.left + v.right) / 2, v.bottom + 38}, v.x.scale.name)
	v.axes()
	for i, s := range p.Series {
		v.series(s, palette[i%len(palette)])
	}
	v.legend(p.Series)
	v.levels(p)
	v.events(events, named)
}

func (v *view) axes() {
	v.line(pen{quiet, 1, nil}, []point{{v.left, v.top}, {v.left, v.bottom}, {v.right, v.bottom}})
}

func (v *view) series(s Series, colour color.RGBA) {
	v.band(s, colour)
	style := pen{colour, 2.1, nil}
	if s.Thin {
		style = pen{colour, 1.5, []float64{6, 5}}
	}
	for _, points := range v.pieces(s) {
		if s.Area {
			first, last := points[0], points[len(points)-1]
			v.area(color.NRGBA{colour.R, colour.G, colour.B, 0x26},
				append(points[:len(points):len(points)], point{last.x, v.bottom}, point{first.x, v.bottom}))
		}
		v.line(style, points)
	}
}

func (v *view) band(s Series, colour color.RGBA) {
	if len(s.Low) < 2 || len(s.Low) != len(s.X) || len(s.High) != len(s.X) {
		return
	}
	n := len(s.X)
	outline := make([]point, 2*n)
	for i, x := range s.X {
		outline[i], outline[2*n-1-i] = v.at(x, s.High[i]), v.at(x, s.Low[i])
	}
	v.area(color.NRGBA{colour.R, colour.G, colour.B, 0x40}, outline)
}

// pieces returns the stretches of a series between interruptions; a lone point becomes a short line, so that it is
// visible.
func (v *view) pieces(s Series) (out [][]point) {
	x, y := thin(s)
	var now []point
	flush := func() {
		if len(now) == 1 {
			now = append(now, point{now[0].x + 2, now[0].y})
		}
		if len(now) > 0 {
			out = append(out, now)
		}
		now = nil
	}
	for i := range x {
		if math.IsNaN(y[i]) || math.IsInf(y[i], 0) || math.IsNaN(x[i]) {
			flush()
			continue
		}
		now = append(now, v.at(x[i], y[i]))
	}
	flush()
	return out
}

func (v *view) legend(series []Series) {
	y := v.top + 14
	for i, s := range series {
		style := pen{palette[i%len(palette)], 2.1, nil}
		if s.Thin {
			style = pen{style.colour, 1.5, []float64{6, 5}}
		}
		v.line(style, []point{{v.left + 12, y - 5}, {v.left + 42, y - 5}})
		v.text(letters{tickSize, ink, left}, point{v.left + 48, y}, s.Name)
		y += 17
	}
}
