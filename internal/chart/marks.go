package chart

import (
	"fmt"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// addLevels draws limits. One that is far above everything is named at the top edge instead.
func addLevels(pl *plot.Plot, p Panel, unit scale) error {
	for i, l := range p.Levels {
		m := mark{text: fmt.Sprintf("%s %s", l.Name, shown(l.Value, p.Unit)), colour: quiet,
			line: draw.LineStyle{Color: quiet, Width: 1, Dashes: []vg.Length{3, 3}}}
		if l.Alarm {
			m.colour, m.line = alarm, draw.LineStyle{Color: alarm, Width: 1.5, Dashes: []vg.Length{6, 3}}
		}
		if m.far = p.far(l); m.far {
			m.text = "↑ " + m.text
			m.below = vg.Length(11 * i)
		}
		m.value = l.Value / unit.per
		pl.Add(m)
	}
	return nil
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

// mark is a horizontal line with its text at the right edge.
type mark struct {
	value  float64
	text   string
	far    bool
	below  vg.Length
	colour color.Color
	line   draw.LineStyle
}

func (m mark) Plot(c draw.Canvas, pl *plot.Plot) {
	style := textStyle(9, m.colour)
	style.XAlign, style.YAlign = text.XRight, text.YBottom
	if m.far {
		style.YAlign = text.YTop
		c.FillText(style, vg.Point{X: c.Max.X - 3, Y: c.Max.Y - 3 - m.below}, m.text)
		return
	}
	_, tr := pl.Transforms(&c)
	y := tr(m.value)
	c.StrokeLine2(m.line, c.Min.X, y, c.Max.X, y)
	x := c.Max.X - 3
	if m.colour != alarm { // where a series up to this point does not cross it
		x = c.Min.X + (c.Max.X-c.Min.X)*0.55
	}
	c.FillText(style, vg.Point{X: x, Y: y + 2}, m.text)
}

// maxEvents that are drawn; more lines than that hide the series.
const maxEvents = 24

func (c Chart) addEvents(pl *plot.Plot, span scale, named bool) error {
	events := worstFirst(c.Events)
	pl.Add(moments{events[:min(len(events), maxEvents)], span, named})
	return nil
}

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

// moments are vertical lines with their texts at the bottom; the texts of bad events come first.
type moments struct {
	events []Event
	span   scale
	named  bool
}

// eventRows is how many texts may be above each other: they take a fifth of a panel.
const eventRows = 4

// Plot leaves a text out if it would overlap another in every row.
func (m moments) Plot(c draw.Canvas, pl *plot.Plot) {
	tr, _ := pl.Transforms(&c)
	var taken [eventRows][][2]vg.Length
	for _, e := range m.events {
		style := textStyle(8.5, color.RGBA{0x7b, 0x52, 0xab, 0xff})
		if e.Bad {
			style.Color = alarm
		}
		x := tr(e.Seconds / m.span.per)
		c.StrokeLine2(draw.LineStyle{Color: style.Color, Width: 0.8, Dashes: []vg.Length{2, 2}}, x, c.Min.Y, x, c.Max.Y)
		if !m.named {
			continue
		}
		style.YAlign, style.XAlign = text.YBottom, text.XLeft
		from, at := x+3, x+3
		if x > c.Min.X+(c.Max.X-c.Min.X)*0.7 {
			style.XAlign, from, at = text.XRight, x-3-style.Width(e.Text), x-3
		}
		extent := [2]vg.Length{from, from + style.Width(e.Text)}
		row := slices.IndexFunc(taken[:], func(others [][2]vg.Length) bool { return fits(extent, others) })
		if row < 0 {
			continue
		}
		taken[row] = append(taken[row], extent)
		c.FillText(style, vg.Point{X: at, Y: c.Min.Y + 4 + vg.Length(row)*11}, e.Text)
	}
}

func fits(extent [2]vg.Length, others [][2]vg.Length) bool {
	const gap = 4
	for _, o := range others {
		if extent[0] < o[1]+gap && o[0] < extent[1]+gap {
			return false
		}
	}
	return true
}

func bars(pl *plot.Plot, p Panel, unit scale) error {
	values := make(plotter.Values, len(p.Bars))
	labels := make([]string, len(p.Bars))
	for i, b := range p.Bars {
		values[i], labels[i] = b.Value/unit.per, b.Label
	}
	wide := min(40, 560/vg.Length(len(p.Bars)))
	chart, err := plotter.NewBarChart(values, wide)
	if err != nil {
		return err
	}
	chart.Color, chart.LineStyle.Width = palette[0], 0
	pl.Add(chart)
	pl.NominalX(labels...)
	pl.X.Tick.Label.Font = textStyle(9, ink).Font
	pl.Y.Min, pl.Y.Max = 0, max(p.highest()/unit.per*1.15, 1)
	return nil
}
