package tui

import "math"

// none is a value that is not known; it leaves a gap.
var none = math.NaN()

// dot is the bit of a braille pattern (U+2800) for column 0 or 1 and row 0 (top) to 3.
var dot = [2][4]rune{{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}}

const (
	dotsAcross = 2 // of a cell
	dotsDown   = 4
	blank      = rune(0x2800)
)

// plot is a field of cells, each of 2 by 4 dots of one colour.
type plot struct {
	wide, high int // cells
	cells      [][]rune
	colours    [][]colour
}

func newPlot(wide, high int) *plot {
	p := &plot{wide: max(wide, 0), high: max(high, 0)}
	p.cells, p.colours = make([][]rune, p.high), make([][]colour, p.high)
	for y := range p.cells {
		p.cells[y], p.colours[y] = make([]rune, p.wide), make([]colour, p.wide)
	}
	return p
}

// set lights a dot; x and y count dots from the left and from the bottom.
func (p *plot) set(x, y int, c colour) {
	cx, cy := x/dotsAcross, p.high-1-y/dotsDown
	if x < 0 || y < 0 || cx >= p.wide || cy < 0 {
		return
	}
	p.cells[cy][cx] |= dot[x%dotsAcross][dotsDown-1-y%dotsDown]
	p.colours[cy][cx] = c
}

// band fills a column of dots from one height up to, not including, another.
func (p *plot) band(x int, from, to float64, c colour) {
	for y := max(0, int(math.Round(from))); y < int(math.Round(to)) && y < p.high*dotsDown; y++ {
		p.set(x, y, c)
	}
}

// line draws values, one for each column of dots, between lo and hi; neighbours are joined, NaN is a gap.
func (p *plot) line(values []float64, lo, hi float64, c colour) {
	top := float64(p.high*dotsDown - 1)
	before := -1
	for x, v := range values {
		if math.IsNaN(v) {
			before = -1
			continue
		}
		y := 0
		if hi > lo {
			y = int(math.Round(min(1, max(0, (v-lo)/(hi-lo))) * top))
		}
		from, to := y, y
		if before >= 0 {
			from, to = min(y, before+sign(y-before)), max(y, before+sign(y-before))
		}
		for k := from; k <= to; k++ {
			p.set(x, k, c)
		}
		before = y
	}
}

func sign(n int) int {
	switch {
	case n > 0:
		return 1
	case n < 0:
		return -1
	}
	return 0
}

// stack draws amounts on top of each other, filled, up to hi at the top edge.
func (p *plot) stack(layers [][]float64, colours []colour, hi float64) {
	if hi <= 0 || len(layers) == 0 {
		return
	}
	scale := float64(p.high*dotsDown) / hi
	for x := range layers[0] {
		sum := 0.0
		for i, l := range layers {
			if math.IsNaN(l[x]) {
				continue
			}
			p.band(x, sum*scale, (sum+l[x])*scale, colours[i])
			sum += l[x]
		}
	}
}

// level draws a dashed line at a height, where nothing is.
func (p *plot) level(v, hi float64, c colour) {
	if hi <= 0 || v > hi || p.high == 0 {
		return
	}
	y := min(p.high*dotsDown-1, int(v/hi*float64(p.high*dotsDown)))
	for x := 0; x < p.wide*dotsAcross; x++ {
		if x%4 < 2 {
			cx, cy := x/dotsAcross, p.high-1-y/dotsDown
			if p.cells[cy][cx] == 0 || p.colours[cy][cx] == c {
				p.set(x, y, c)
			}
		}
	}
}

// rows are the lines of the plot, coloured.
func (p *plot) rows() []string {
	out := make([]string, p.high)
	for y := range p.cells {
		var b builder
		for x, cell := range p.cells[y] {
			if cell == 0 {
				b.put(plainText, " ")
			} else {
				b.put(p.colours[y][x], string(blank|cell))
			}
		}
		out[y] = b.String()
	}
	return out
}
