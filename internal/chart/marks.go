package chart

import (
	"fmt"
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// addLevels draws limits. One that is far above everything is named at the top edge instead.
func addLevels(pl *plot.Plot, p Panel, unit scale) error {
	for i, l := range p.Levels {
		m := mark{text: fmt.Sprintf("%s %s", l.Name, shown(l.Value, p.Unit)), colour: quiet, line: draw.LineStyle{Color: quiet, Width: 1, Dashes: []vg.Length{3, 3}}}
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
	if m.colour != alarm { // where a series that has come so far does not run through it
		x = c.Min.X + (c.Max.X-c.Min.X)*0.55
	}
	c.FillText(style, vg.Point{X: x, Y: y + 2}, m.text)
}

// maxEvents that are drawn; more lines than that hide the series.
const maxEvents = 24

func (c Chart) addEvents(pl *plot.Plot, span scale, named bool) error {
	events := c.Events
	if len(events) > maxEvents {
		events = worstFirst(events)[:maxEvents]
	}
	for i, e := range events {
		pl.Add(moment{x: e.Seconds / span.per, text: e.Text, bad: e.Bad, named: named, row: i % 3})
	}
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

// moment is a vertical line with its text at the bottom, in one of three rows so that neighbours stay readable.
type moment struct {
	x          float64
	text       string
	bad, named bool
	row        int
}

func (m moment) Plot(c draw.Canvas, pl *plot.Plot) {
	colour := color.RGBA{0x7b, 0x52, 0xab, 0xff}
	if m.bad {
		colour = alarm
	}
	tr, _ := pl.Transforms(&c)
	x := tr(m.x)
	c.StrokeLine2(draw.LineStyle{Color: colour, Width: 0.8, Dashes: []vg.Length{2, 2}}, x, c.Min.Y, x, c.Max.Y)
	if !m.named {
		return
	}
	style := textStyle(8.5, colour)
	style.YAlign, style.XAlign = text.YBottom, text.XLeft
	at := vg.Point{X: x + 3, Y: c.Min.Y + 4 + vg.Length(m.row)*11}
	if x > c.Min.X+(c.Max.X-c.Min.X)*0.7 {
		style.XAlign, at.X = text.XRight, x-3
	}
	c.FillText(style, at, m.text)
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
