package flame

import (
	"bufio"
	_ "embed"
	"fmt"
	"hash/fnv"
	"html"
	"io"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
)

const (
	width     = 1200 // px
	rowHeight = 18
	margin    = 10
	header    = 40
	letter    = 6.6  // px of a letter of 11 px monospace
	minShare  = 5e-4 // of the whole: less than a pixel is left out
)

// box is a node's place; x and w are shares of the whole.
type box struct {
	node  *Node
	depth int
	x, w  float64
}

// boxes lays a graph out, the root at depth 0. It returns how many nodes were too narrow to be drawn, and the deepest
// row.
func (g *Graph) boxes() (out []box, narrow, depth int) {
	whole := float64(max(g.Root.weigh(), 1))
	ends := []float64{0} // where the next child of each depth begins
	g.each(func(stack []*Node) {
		d, n := len(stack)-1, stack[len(stack)-1]
		w := float64(n.weight) / whole
		x := ends[d]
		ends = append(ends[:d], x+w, x)
		if w < minShare {
			narrow++
			return
		}
		depth = max(depth, d)
		out = append(out, box{n, d, x, w})
	})
	return out, narrow, depth
}

// WriteSVG draws the graph, outermost frames at the top. Names and sizes are in each box's title.
func (g *Graph) WriteSVG(w io.Writer) error {
	b := bufio.NewWriter(w)
	g.draw(b)
	return b.Flush()
}

func (g *Graph) draw(b *bufio.Writer) {
	boxes, narrow, depth := g.boxes()
	height := header + (depth+1)*rowHeight + 2*margin
	fmt.Fprintf(b,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="monospace" `+
			`font-size="11" role="img" aria-label="%s">`+"\n",
		width, height, width, height, escape(g.Title))
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#fdfdfd"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="%d" y="18" font-size="13">%s</text>`+"\n", margin,
		escape(fit(g.Title, (width-2*margin)/8)))
	note := fmt.Sprintf("%s in all", units.Bytes(g.Root.Value))
	if g.Compare {
		note = fmt.Sprintf("%s before, %s after; red grew, blue shrank", units.Bytes(g.Root.Before),
			units.Bytes(g.Root.Value))
	}
	if narrow > 0 {
		note += fmt.Sprintf("; %s frames of less than %.2g %% are not drawn", units.Count(int64(narrow)), 100*minShare)
	}
	if g.Cut > 0 {
		note += fmt.Sprintf("; %s stacks are cut short", units.Count(int64(g.Cut)))
	}
	fmt.Fprintf(b, `<text x="%d" y="33" fill="#555">%s</text>`+"\n", margin, escape(note))
	for _, x := range boxes {
		g.drawBox(b, x)
	}
	b.WriteString("</svg>\n")
}

func (g *Graph) drawBox(b *bufio.Writer, x box) {
	full := float64(width - 2*margin)
	left, wide, top := margin+x.x*full, x.w*full, header+x.depth*rowHeight
	fmt.Fprintf(b,
		`<g data-x="%.6f" data-w="%.6f" data-d="%d"><title>%s</title><rect x="%.2f" y="%d" width="%.2f" height="%d" `+
			`fill="%s" rx="1"/>`,
		x.x, x.w, x.depth, escape(g.tip(x.node)), left, top, max(wide-0.5, 0.2), rowHeight-1,
		g.colour(x.node))
	if room := int((wide - 6) / letter); room > 2 {
		fmt.Fprintf(b, `<text x="%.2f" y="%d">%s</text>`, left+3, top+13, escape(fit(plain.Line(x.node.label()), room)))
	}
	b.WriteString("</g>\n")
}

// label is the text in a box.
func (n *Node) label() string {
	if n.File == "" || n.File == "??" {
		return n.Name
	}
	return fmt.Sprintf("%s %s:%d", n.Name, base(n.File), n.Line)
}

func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}

// tip is the text that a box shows when it is pointed at.
func (g *Graph) tip(n *Node) string {
	s := fmt.Sprintf("%s\n%s, %.1f %%, %s allocations", n.text(), units.Bytes(n.Value),
		100*float64(n.Value)/float64(max(g.Root.Value, 1)), units.Count(int64(n.Blocks)))
	if g.Compare {
		s += fmt.Sprintf("\nbefore: %s", units.Bytes(n.Before))
	}
	return s
}

// colour is by file, so that a library is seen as one; in a comparison by how much a frame grew or shrank.
func (g *Graph) colour(n *Node) string {
	if g.Compare {
		share := float64(n.Value-n.Before) / float64(max(n.Value, n.Before, 1)) // -1 to 1
		fade := int(235 - 130*max(share, -share))
		switch {
		case share > 0.01:
			return fmt.Sprintf("rgb(240,%d,%d)", fade, fade)
		case share < -0.01:
			return fmt.Sprintf("rgb(%d,%d,245)", fade, fade)
		}
		return "rgb(225,225,225)"
	}
	h := fnv.New32a()
	h.Write([]byte(n.File))
	v := h.Sum32()
	// warm, and light enough for black letters
	return fmt.Sprintf("#%02x%02x%02x", 225+v%30, 130+(v>>8)%90, 70+(v>>16)%60)
}

// escape makes a text a part of a document.
func escape(s string) string { return html.EscapeString(plain.XML(s)) }

// fit cuts a text to n letters.
func fit(s string, n int) string {
	if len(s) <= n || utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:max(n-1, 0)]) + "…"
}

//go:embed zoom.js
var zoom string

// WriteHTML writes a page that contains the picture and needs nothing else: a click zooms in, a search marks frames.
func (g *Graph) WriteHTML(w io.Writer) error {
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>%s</title>\n",
		escape(g.Title))
	b.WriteString(`<meta name="viewport" content="width=device-width"><style>
body{margin:8px;font:14px sans-serif}svg{width:100%;height:auto}g[data-d]{cursor:pointer}
g.found rect{stroke:#000;stroke-width:1.5}input{font:inherit;width:20em}
</style></head><body>
<label>Find <input id="find" type="search" placeholder="function or file"></label> <output id="hits"></output>
<p>Click a frame to zoom in, the top frame to zoom out.</p>
`)
	g.draw(b)
	fmt.Fprintf(b, "<script>\n%s</script></body></html>\n", zoom)
	return b.Flush()
}
