package chart

import (
	"fmt"
	"image/color"
	"slices"
)

// levels draws limits. One that is far above everything is named at the top edge instead.
func (v *view) levels(p Panel) {
	for i, l := range p.Levels {
		text := fmt.Sprintf("%s %s", l.Name, shown(l.Value, p.Unit))
		colour, style := quiet, pen{quiet, 1.5, []float64{4.5, 4.5}}
		if l.Alarm {
			colour, style = alarm, pen{alarm, 2.3, []float64{9, 4.5}}
		}
		x := v.right - 5
		if p.far(l) {
			v.text(letters{tickSize, colour, right}, point{x, v.top + 15 + 17*float64(i)}, "↑ "+text)
			continue
		}
		y := v.at(0, l.Value).y
		v.line(style, []point{{v.left, y}, {v.right, y}})
		if !l.Alarm { // where a series up to this point does not cross it
			x = v.left + (v.right-v.left)*0.55
		}
		v.text(letters{tickSize, colour, right}, point{x, y - 4}, text)
	}
}

func shown(v float64, unit Unit) string {
	switch unit {
	case Percent:
		return fmt.Sprintf("%.0f %%", v)
	case Count:
		return fmt.Sprintf("%.0f", v)
	}
	s := byteScale(v*2.001, unit == BytesPerSecond) // the unit that leaves at least one
	return fmt.Sprintf("%.4g %s", v/s.per, s.name)
}

// maxEvents that are drawn; more lines than that hide the series.
const maxEvents = 24

func worstFirst(events []Event) []Event {
	var bad, other []Event
	for _, e := range events {
		if e.Bad {
			bad = append(bad, e)
		} else {
			other = append(other, e)
		}
	}
	return append(bad, other...)
}

// eventRows is how many texts may be above each other: they take a fifth of a panel.
const eventRows = 4

// events draws vertical lines with their texts at the bottom. The texts of bad events come first; one that would
// overlap another in every row is left out.
func (v *view) events(events []Event, named bool) {
	var taken [eventRows][][2]float64
	events = worstFirst(events)
	for _, e := range events[:min(len(events), maxEvents)] {
		style := letters{13, color.RGBA{0x7b, 0x52, 0xab, 0xff}, left}
		if e.Bad {
			style.colour = alarm
		}
		x := v.at(e.Seconds, 0).x
		v.line(pen{style.colour, 1.2, []float64{3, 3}}, []point{{x, v.bottom}, {x, v.top}})
		if !named {
			continue
		}
		wide := v.faces.width(style.size, e.Text)
		from, at := x+5, x+5
		if x > v.left+(v.right-v.left)*0.7 {
			style.align, from, at = right, x-5-wide, x-5
		}
		row := slices.IndexFunc(taken[:], func(others [][2]float64) bool { return fits(from, from+wide, others) })
		if row < 0 {
			continue
		}
		taken[row] = append(taken[row], [2]float64{from, from + wide})
		v.text(style, point{at, v.bottom - 7 - float64(row)*17}, e.Text)
	}
}

func fits(from, to float64, others [][2]float64) bool {
	const gap = 6
	for _, o := range others {
		if from < o[1]+gap && o[0] < to+gap {
			return false
		}
	}
	return true
}

func (v *view) bars(p Panel) {
	step := (v.right - v.left) / float64(len(p.Bars))
	half := min(30, step*0.4)
	for i, b := range p.Bars {
		x, y := v.left+(float64(i)+0.5)*step, v.at(0, b.Value).y
		c := palette[0]
		v.area(color.NRGBA{c.R, c.G, c.B, 0xff},
			[]point{{x - half, y}, {x + half, y}, {x + half, v.bottom}, {x - half, v.bottom}})
		v.text(letters{tickSize, ink, centre}, point{x, v.bottom + 18}, b.Label)
	}
	v.axes()
}
