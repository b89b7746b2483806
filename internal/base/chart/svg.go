package chart

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"image/color"
	"io"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
)

// WriteSVG draws the chart as an SVG document.
func (c Chart) WriteSVG(w io.Writer) error {
	_, err := fmt.Fprintf(w, "<?xml version=\"1.0\"?>\n%s\n", c.svg())
	if err != nil {
		return fmt.Errorf("draw SVG: %w", err)
	}
	return nil
}

// svg is the chart as one element. Its texts are escaped.
func (c Chart) svg() string {
	s := &svgCanvas{}
	fmt.Fprintf(&s.b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %[1]d %[2]d" `+
		`font-family="Arial,'Liberation Sans',Helvetica,sans-serif">`+"\n", width, c.height())
	c.drawOn(s)
	s.b.WriteString("</svg>")
	return s.b.String()
}

// svgCanvas writes an element for each thing that is drawn.
type svgCanvas struct{ b bytes.Buffer }

func (s *svgCanvas) line(p pen, points []point) {
	fmt.Fprintf(&s.b, `<polyline fill="none" stroke="%s" stroke-width="%s" points="%s"`,
		hex(p.colour.R, p.colour.G, p.colour.B), short(p.width), list(points))
	if len(p.dashes) > 0 {
		var lengths []string
		for _, d := range p.dashes {
			lengths = append(lengths, short(d))
		}
		fmt.Fprintf(&s.b, ` stroke-dasharray="%s"`, strings.Join(lengths, ","))
	}
	s.b.WriteString("/>\n")
}

func (s *svgCanvas) area(c color.NRGBA, points []point) {
	fmt.Fprintf(&s.b, `<polygon fill="%s" fill-opacity="%.2f" points="%s"/>`+"\n", hex(c.R, c.G, c.B),
		float64(c.A)/255, list(points))
}

func (s *svgCanvas) text(l letters, at point, text string) {
	fmt.Fprintf(&s.b, `<text x="%s" y="%s" font-size="%s" fill="%s" text-anchor="%s">`, short(at.x), short(at.y),
		short(l.size), hex(l.colour.R, l.colour.G, l.colour.B), [...]string{"start", "middle", "end"}[l.align])
	_ = xml.EscapeText(&s.b, []byte(plain.XML(text))) // a buffer takes all
	s.b.WriteString("</text>\n")
}

func hex(r, g, b uint8) string { return fmt.Sprintf("#%02x%02x%02x", r, g, b) }

// short is a length with a tenth of a pixel.
func short(x float64) string {
	return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
}

func list(points []point) string {
	var b strings.Builder
	for i, p := range points {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(short(p.x) + "," + short(p.y))
	}
	return b.String()
}
