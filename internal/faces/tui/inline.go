package tui

import (
	"bytes"
	"fmt"
	"image/png"
	"io"
	"math"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/ansi/kitty"
	"github.com/charmbracelet/x/ansi/sixel"

	"github.com/memgauge/memgauge/internal/base/chart"
)

// Graphics is what a terminal can show besides text.
type Graphics int

// The kinds of graphics.
const (
	Braille Graphics = iota
	Kitty
	Sixel
)

// GraphicsOf goes by what a terminal says of itself in the environment. Over ssh TERM alone comes through.
func GraphicsOf(getenv func(string) string) Graphics {
	terminal, program := getenv("TERM"), getenv("TERM_PROGRAM")
	switch {
	case getenv("TMUX") != "" || strings.HasPrefix(terminal, "screen") || strings.HasPrefix(terminal, "tmux"):
		return Braille // a multiplexer keeps pictures to itself
	case getenv("KITTY_WINDOW_ID") != "", strings.Contains(terminal, "kitty"), strings.Contains(terminal, "ghostty"),
		program == "ghostty", program == "WezTerm":
		return Kitty
	case strings.HasPrefix(terminal, "foot"), strings.HasPrefix(terminal, "mlterm"),
		strings.Contains(terminal, "sixel"), program == "mintty", program == "contour":
		return Sixel
	}
	return Braille
}

// WriteInline draws a chart among the lines of a terminal. Its texts are made safe.
func WriteInline(w io.Writer, c chart.Chart, g Graphics, wide int) error {
	if g == Braille {
		_, err := io.WriteString(w, strings.Join(brailleChart(c, wide), "\n")+"\n")
		return err
	}
	var b bytes.Buffer
	if err := c.WritePNG(&b); err != nil {
		return err
	}
	img, err := png.Decode(&b)
	if err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	if g == Kitty {
		err = kitty.EncodeGraphics(w, img, &kitty.Options{Action: kitty.TransmitAndPut, Quiet: 2,
			Transmission: kitty.Direct, Format: kitty.PNG, Chunk: true})
	} else {
		b.Reset()
		if err = (&sixel.Encoder{}).Encode(&b, img); err == nil {
			_, err = io.WriteString(w, ansi.SixelGraphics(0, 1, 0, b.Bytes()))
		}
	}
	if err != nil {
		return fmt.Errorf("draw the chart: %w", err)
	}
	_, err = io.WriteString(w, "\n")
	return err
}

// heightOf a chart among lines.
const heightOf = 12

// lineColours of series, in the order of chart's palette.
var lineColours = []colour{blue, orange, green, pink, sky, yellow, grey}

// brailleChart draws the first panel's series over each other.
func brailleChart(c chart.Chart, wide int) []string {
	if len(c.Panels) == 0 || len(c.Panels[0].Series) == 0 {
		return nil
	}
	field := max(4, wide-axis-2)
	first, last, lo, hi := extent(c.Panels[0].Series)
	p := newPlot(field, heightOf)
	var names builder
	names.put(plainText, strings.Repeat(" ", axis))
	for i, s := range c.Panels[0].Series {
		colour := lineColours[i%len(lineColours)]
		p.line(columnsOf(s, first, last, field*dotsAcross), lo, hi, colour)
		names.put(colour, safe(s.Name)+"  ")
	}
	lines := p.rows()
	for i := range lines {
		label := ""
		switch i {
		case 0:
			label = fmt.Sprintf("%.4g", hi)
		case heightOf - 1:
			label = fmt.Sprintf("%.4g", lo)
		}
		lines[i] = right(label, axis-1) + paint(grey, "▏") + lines[i]
	}
	under := strings.Repeat(" ", axis) + ends(fmt.Sprintf("%.6g", first), fmt.Sprintf("%.6g %s", last, safe(c.Across)),
		field)
	return append(append(lines, under), names.String())
}

// extent is where series begin and end, and between which values they lie.
func extent(list []chart.Series) (first, last, lo, hi float64) {
	first, last, lo, hi = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range list {
		for i := range s.X {
			if !math.IsNaN(s.Y[i]) {
				first, last = min(first, s.X[i]), max(last, s.X[i])
				lo, hi = min(lo, s.Y[i]), max(hi, s.Y[i])
			}
		}
	}
	return first, last, lo, hi
}

// columnsOf gives the highest value of each column of dots; those between two readings lie on the line that joins them.
func columnsOf(s chart.Series, first, last float64, n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = none
	}
	at, before := -1, 0.0
	for i := range s.X {
		if math.IsNaN(s.Y[i]) {
			continue
		}
		k := 0
		if last > first {
			k = int((s.X[i] - first) / (last - first) * float64(n-1))
		}
		k = max(0, min(n-1, k))
		for j := at + 1; at >= 0 && j < k; j++ {
			out[j] = before + (s.Y[i]-before)*float64(j-at)/float64(k-at)
		}
		if math.IsNaN(out[k]) || s.Y[i] > out[k] {
			out[k] = s.Y[i]
		}
		at, before = k, s.Y[i]
	}
	return out
}
