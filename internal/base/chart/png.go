package chart

import (
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"math"

	"golang.org/x/image/font"
	"golang.org/x/image/math/fixed"
	"golang.org/x/image/vector"
)

// WritePNG draws the chart as a picture of 1100 pixels' width.
func (c Chart) WritePNG(w io.Writer) error {
	picture := image.NewRGBA(image.Rect(0, 0, width, c.height()))
	draw.Draw(picture, picture.Bounds(), image.White, image.Point{}, draw.Src)
	c.drawOn(&pngCanvas{picture: picture, faces: faces{}})
	if err := png.Encode(w, picture); err != nil {
		return fmt.Errorf("draw PNG: %w", err)
	}
	return nil
}

// pngCanvas paints pixels.
type pngCanvas struct {
	picture  *image.RGBA
	faces    faces
	shape    vector.Rasterizer
	outlines [][]point // to be filled
}

// line fills a rectangle along each piece, and a disc where two meet. All go round the same way, so what they share is
// filled once.
func (p *pngCanvas) line(style pen, points []point) {
	for _, stroke := range strokes(points, style.dashes) {
		for i := 1; i < len(stroke); i++ {
			p.stretch(stroke[i-1], stroke[i], style.width/2)
			if i > 1 {
				p.disc(stroke[i-1], style.width/2)
			}
		}
	}
	p.fill(style.colour)
}

func (p *pngCanvas) stretch(a, b point, half float64) {
	length := math.Hypot(b.x-a.x, b.y-a.y)
	if length == 0 {
		return
	}
	x, y := -(b.y-a.y)/length*half, (b.x-a.x)/length*half
	p.outline([]point{{a.x + x, a.y + y}, {a.x - x, a.y - y}, {b.x - x, b.y - y}, {b.x + x, b.y + y}})
}

func (p *pngCanvas) disc(at point, radius float64) {
	const corners = 8 // of a disc of one or two pixels
	round := make([]point, corners)
	for i := range round {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / corners)
		round[i] = point{at.x + radius*cos, at.y + radius*sin}
	}
	p.outline(round)
}

func (p *pngCanvas) area(c color.NRGBA, points []point) {
	p.outline(points)
	p.fill(c)
}

func (p *pngCanvas) outline(points []point) { p.outlines = append(p.outlines, points) }

// fill paints what was outlined since the last time. Only the rectangle around it is looked at.
func (p *pngCanvas) fill(c color.Color) {
	r := around(p.outlines).Intersect(p.picture.Bounds())
	p.shape.Reset(r.Dx(), r.Dy())
	for _, points := range p.outlines {
		for i, q := range points {
			x, y := float32(q.x-float64(r.Min.X)), float32(q.y-float64(r.Min.Y))
			if i == 0 {
				p.shape.MoveTo(x, y)
			} else {
				p.shape.LineTo(x, y)
			}
		}
		p.shape.ClosePath()
	}
	p.shape.Draw(p.picture, r, image.NewUniform(c), image.Point{})
	p.outlines = p.outlines[:0]
}

// around is the smallest rectangle that has all points.
func around(outlines [][]point) (r image.Rectangle) {
	for _, points := range outlines {
		for _, q := range points {
			x, y := int(math.Floor(q.x)), int(math.Floor(q.y))
			r = r.Union(image.Rect(x, y, x+2, y+2))
		}
	}
	return r
}

func (p *pngCanvas) text(l letters, at point, s string) {
	at.x -= p.faces.width(l.size, s) * float64(l.align) / float64(right)
	d := font.Drawer{Dst: p.picture, Src: image.NewUniform(l.colour), Face: p.faces.of(l.size),
		Dot: fixed.Point26_6{X: fixed.Int26_6(at.x * 64), Y: fixed.Int26_6(at.y * 64)}}
	d.DrawString(s)
}

// strokes cuts a line into what its dashes leave of it.
func strokes(points []point, dashes []float64) [][]point {
	if len(dashes) == 0 || len(points) < 2 {
		return [][]point{points}
	}
	var out [][]point
	now, which, room := []point{points[0]}, 0, dashes[0]
	for i := 1; i < len(points); i++ {
		a, b := points[i-1], points[i]
		for length := math.Hypot(b.x-a.x, b.y-a.y); length > room; length = math.Hypot(b.x-a.x, b.y-a.y) {
			a = point{a.x + (b.x-a.x)*room/length, a.y + (b.y-a.y)*room/length}
			if which%2 == 0 {
				out = append(out, append(now, a))
			}
			which++
			now, room = []point{a}, dashes[which%len(dashes)]
		}
		room -= math.Hypot(b.x-a.x, b.y-a.y)
		now = append(now, b)
	}
	if which%2 == 0 {
		out = append(out, now)
	}
	return out
}
