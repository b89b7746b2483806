package chart

import (
	"fmt"
	"image/color"
	"io"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/memgauge/memgauge/internal/plain"
)

const (
	width       = 10 * vg.Inch
	panelHeight = 2.9 * vg.Inch
	headHeight  = 0.62 * vg.Inch
	dpi         = 110
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
	grid  = color.RGBA{0xe2, 0xe2, 0xe2, 0xff}
	ink   = color.RGBA{0x22, 0x22, 0x22, 0xff}
)

// WritePNG draws the chart as a picture of about 1100 pixels' width.
func (c Chart) WritePNG(w io.Writer) error {
	canvas := vgimg.NewWith(vgimg.UseWH(width, c.height()), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(color.White))
	if err := c.drawOn(draw.New(canvas)); err != nil {
		return err
	}
	if _, err := (vgimg.PngCanvas{Canvas: canvas}).WriteTo(w); err != nil {
		return fmt.Errorf("draw PNG: %w", err)
	}
	return nil
}

// names is a canvas whose texts are made of characters that SVG has, whatever names are in them.
type names struct{ *vgsvg.Canvas }

// FillString implements vg.Canvas.
func (n names) FillString(f font.Face, at vg.Point, s string) {
	n.Canvas.FillString(f, at, plain.XML(s))
}

// WriteSVG draws the chart as an SVG document.
func (c Chart) WriteSVG(w io.Writer) error {
	canvas := vgsvg.New(width, c.height())
	if err := c.drawOn(draw.New(names{canvas})); err != nil {
		return err
	}
	if _, err := canvas.WriteTo(w); err != nil {
		return fmt.Errorf("draw SVG: %w", err)
	}
	return nil
}

func (c Chart) height() vg.Length {
	return c.head() + panelHeight*vg.Length(max(1, len(c.Panels)))
}

func (c Chart) head() vg.Length {
	if c.Title == "" && c.Note == "" {
		return 0
	}
	return headHeight
}

// drawOn draws the panels with their left edges on one line.
func (c Chart) drawOn(dc draw.Canvas) error {
	c.drawHead(dc)
	if len(c.Panels) == 0 {
		return nil
	}
	plots := make([][]*plot.Plot, len(c.Panels))
	for i, p := range c.Panels {
		drawn, err := c.panel(p, i == 0)
		if err != nil {
			return fmt.Errorf("draw %q: %w", p.Title, err)
		}
		plots[i] = []*plot.Plot{drawn}
	}
	body := draw.Crop(dc, 0, 0, 0, -c.head())
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadLeft: 8, PadRight: 14, PadBottom: 6, PadTop: 4, PadY: 10}
	for i, row := range plot.Align(plots, tiles, body) {
		plots[i][0].Draw(row[0])
	}
	return nil
}

func (c Chart) drawHead(dc draw.Canvas) {
	style := textStyle(14, ink)
	style.YAlign = text.YTop
	dc.FillText(style, vg.Point{X: dc.Min.X + 12, Y: dc.Max.Y - 8}, c.Title)
	style = textStyle(10, quiet)
	style.YAlign = text.YTop
	dc.FillText(style, vg.Point{X: dc.Min.X + 12, Y: dc.Max.Y - 27}, c.Note)
}

func textStyle(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		Handler: plot.DefaultTextHandler}
}

func (c Chart) panel(p Panel, named bool) (*plot.Plot, error) {
	pl := plot.New()
	pl.Title.Text = p.Title
	pl.Title.TextStyle = textStyle(11, ink)
	pl.Title.TextStyle.XAlign, pl.Title.TextStyle.YAlign = text.XCenter, text.YTop
	pl.Title.Padding = 4
	unit := p.scale()
	pl.Y.Label.Text = unit.name
	for _, axis := range []*plot.Axis{&pl.X, &pl.Y} {
		axis.Label.TextStyle.Font = textStyle(10, ink).Font
		axis.Tick.Label.Font = textStyle(9, ink).Font
		axis.Tick.Marker = roundTicks{}
		axis.LineStyle.Color, axis.Tick.Color = quiet, quiet
	}
	lines := plotter.NewGrid()
	lines.Vertical.Color, lines.Horizontal.Color = grid, grid
	pl.Add(lines)
	pl.Legend.Top, pl.Legend.Left = true, true
	pl.Legend.TextStyle = textStyle(9, ink)
	pl.Legend.XOffs, pl.Legend.YOffs, pl.Legend.Padding = 6, -3, 2
	if len(p.Bars) > 0 {
		return pl, bars(pl, p, unit)
	}
	span := timeScale(c.duration())
	if c.Across != "" {
		span = scale{1, c.Across}
	}
	pl.X.Label.Text = span.name
	pl.X.Min, pl.X.Max = c.Begin/span.per, c.duration()/span.per
	if err := addSeries(pl, p, unit, span); err != nil {
		return nil, err
	}
	setHeight(pl, p, unit)
	if err := addLevels(pl, p, unit); err != nil {
		return nil, err
	}
	return pl, c.addEvents(pl, span, named)
}

// setHeight begins at zero if that wastes less than half of the height, and leaves some room for the legend.
func setHeight(pl *plot.Plot, p Panel, unit scale) {
	if p.Unit == Percent {
		pl.Y.Min, pl.Y.Max = 0, 108
		return
	}
	lo, hi := p.lowest(), p.highest()
	for _, l := range p.Levels {
		if !p.far(l) {
			hi = max(hi, l.Value)
		}
	}
	if lo < hi/2 || len(p.Series) > 0 && p.Series[0].Area { // an area stands for an amount
		lo = 0
	}
	room := max(hi-lo, hi*0.02, unit.per*0.01)
	pl.Y.Min, pl.Y.Max = max(0, lo-0.08*room)/unit.per, (hi+0.25*room)/unit.per
	if lo == 0 {
		pl.Y.Min = 0
	}
}

func addSeries(pl *plot.Plot, p Panel, unit, span scale) error {
	for i, s := range p.Series {
		colour := palette[i%len(palette)]
		if err := addBand(pl, s, unit, span, colour); err != nil {
			return err
		}
		first := true
		for _, xy := range pieces(s, unit, span) {
			line, err := plotter.NewLine(xy)
			if err != nil {
				return err
			}
			line.Color, line.Width = colour, 1.4
			if s.Thin {
				line.Width, line.Dashes = 1, []vg.Length{4, 3}
			}
			if s.Area {
				faint := colour
				line.FillColor = color.NRGBA{faint.R, faint.G, faint.B, 0x26}
			}
			pl.Add(line)
			if first {
				pl.Legend.Add(s.Name, legendLine{line.LineStyle})
				first = false
			}
		}
	}
	return nil
}

func addBand(pl *plot.Plot, s Series, unit, span scale, colour color.RGBA) error {
	if len(s.Low) < 2 || len(s.Low) != len(s.X) || len(s.High) != len(s.X) {
		return nil
	}
	n := len(s.X)
	outline := make(plotter.XYs, 2*n)
	for i, x := range s.X {
		outline[i] = plotter.XY{X: x / span.per, Y: s.High[i] / unit.per}
		outline[2*n-1-i] = plotter.XY{X: x / span.per, Y: s.Low[i] / unit.per}
	}
	band, err := plotter.NewPolygon(outline)
	if err != nil {
		return err
	}
	band.Color, band.LineStyle.Width = color.NRGBA{colour.R, colour.G, colour.B, 0x40}, 0
	pl.Add(band)
	return nil
}

// legendLine is a series' sample in the legend.
type legendLine struct{ draw.LineStyle }

func (l legendLine) Thumbnail(c *draw.Canvas) {
	y := c.Center().Y
	c.StrokeLine2(l.LineStyle, c.Min.X, y, c.Max.X, y)
}

// pieces returns the stretches of a series between interruptions; a lone point becomes a short line, so that it is
// visible.
func pieces(s Series, unit, span scale) []plotter.XYs {
	x, y := thin(s)
	var out []plotter.XYs
	var now plotter.XYs
	flush := func() {
		if len(now) == 1 {
			now = append(now, plotter.XY{X: now[0].X + 1e-3, Y: now[0].Y})
		}
		if len(now) > 0 {
			out = append(out, now)
		}
		now = nil
	}
	for i := range x {
		if math.IsNaN(y[i]) || math.IsInf(y[i], 0) {
			flush()
			continue
		}
		now = append(now, plotter.XY{X: x[i] / span.per, Y: y[i] / unit.per})
	}
	flush()
	return out
}
