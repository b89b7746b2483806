package term

import (
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
)

// StatusLine is the line at the bottom of a terminal with a command's progress. Without a terminal it writes nothing.
type StatusLine struct {
	to    io.Writer // standard error itself, since the line moves the cursor; nil if that is no terminal
	width int       // columns
	dirty bool
}

// NewStatusLine makes the status line of the terminal behind stderr.
func NewStatusLine(stderr io.Writer) *StatusLine {
	width := TerminalWidth(stderr)
	if width == 0 {
		return &StatusLine{}
	}
	f, _ := FileOf(stderr)
	return &StatusLine{to: f, width: width}
}

// Shown reports whether there is a terminal for it.
func (l *StatusLine) Shown() bool { return l.to != nil }

// Room returns how many columns a text may have.
func (l *StatusLine) Room() int { return l.width - 1 }

// Show replaces the line by text, cut to the terminal's width.
func (l *StatusLine) Show(format string, args ...any) {
	if l.to == nil {
		return
	}
	text := []rune(plain.Line(fmt.Sprintf(format, args...)))
	fmt.Fprintf(l.to, "\r\x1b[K%s", string(text[:min(len(text), l.width-1)]))
	l.dirty = true
}

// Clear removes the line.
func (l *StatusLine) Clear() {
	if l.dirty {
		fmt.Fprint(l.to, "\r\x1b[K")
		l.dirty = false
	}
}

// ProgressStep is the number of bytes of a file between two changes of the line: about ten changes a second.
const ProgressStep = 64 << 20

// Counted shows how much of a large file has been read.
type Counted struct {
	io.Reader
	N, shown, Total int64 // bytes; total 0: not known
	Line            *StatusLine
	Name            string
}

func (c *Counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.N += int64(n)
	if c.N >= c.shown+ProgressStep {
		c.shown = c.N
		share := ""
		if c.Total > 0 {
			share = fmt.Sprintf(" of %s, %.0f %%", units.Bytes(c.Total), 100*float64(c.N)/float64(c.Total))
		}
		c.Line.Show("reading %s: %s%s", c.Name, units.Bytes(c.N), share)
	}
	return n, err
}

// CountedOut shows how much of a large output has been written.
type CountedOut struct {
	io.Writer
	n, shown int64 // bytes
	Step     int64 // bytes between two changes of the line
	Line     *StatusLine
	What     string
}

func (c *CountedOut) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	if c.n >= c.shown+c.Step {
		c.shown = c.n
		c.Line.Show("%s: %s", c.What, units.Bytes(c.n))
	}
	return n, err
}
