package chart

import (
	"image/color"
	"sync"

	"golang.org/x/image/font"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/opentype"
)

// canvas is what a chart is drawn on. Lengths are pixels of a picture of width wide.
type canvas interface {
	line(pen, []point)
	area(color.NRGBA, []point) // the outline, without its last point again
	text(letters, point, string)
}

// point is in pixels from the picture's top left corner.
type point struct{ x, y float64 }

// pen is how a line looks. Dashes are lengths of strokes and gaps; none: one stroke.
type pen struct {
	colour color.RGBA
	width  float64
	dashes []float64
}

// letters is how a text looks. It stands on its point's height, and where align says.
type letters struct {
	size   float64
	colour color.RGBA
	align  align
}

type align int

const (
	left align = iota
	centre
	right
)

// typeface is the font of pictures. An SVG is set in the reader's own, which is no wider.
var typeface = sync.OnceValue(func() *opentype.Font {
	f, err := opentype.Parse(goregular.TTF)
	if err != nil {
		panic(err) // the program's own bytes
	}
	return f
})

// faces are the typeface in sizes.
type faces map[float64]font.Face

func (f faces) of(size float64) font.Face {
	if f[size] == nil {
		face, err := opentype.NewFace(typeface(), &opentype.FaceOptions{Size: size, DPI: 72}) // so a point is a pixel
		if err != nil {
			panic(err) // the size is a constant
		}
		f[size] = face
	}
	return f[size]
}

// width of a text in pixels.
func (f faces) width(size float64, s string) float64 {
	return float64(font.MeasureString(f.of(size), s)) / 64
}
