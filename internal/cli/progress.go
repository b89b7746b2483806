package cli

import (
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/plain"
)

// statusLine is the line at the bottom of a terminal that tells how far a command is. Without a terminal it is silent.
type statusLine struct {
	to    io.Writer // standard error itself, since the line moves the cursor; nil if that is no terminal
	width int       // columns
	dirty bool
}

// newStatusLine is at the bottom of the terminal that stderr is.
func newStatusLine(stderr io.Writer) *statusLine {
	width := terminalWidth(stderr)
	if width == 0 {
		return &statusLine{}
	}
	f, _ := fileOf(stderr)
	return &statusLine{to: f, width: width}
}

// shown says that there is a terminal to show it.
func (l *statusLine) shown() bool { return l.to != nil }

// room is how many columns a text may have.
func (l *statusLine) room() int { return l.width - 1 }

// show draws the line anew, cut to the terminal's width.
func (l *statusLine) show(format string, args ...any) {
	if l.to == nil {
		return
	}
	text := []rune(plain.Line(fmt.Sprintf(format, args...)))
	fmt.Fprintf(l.to, "\r\x1b[K%s", string(text[:min(len(text), l.width-1)]))
	l.dirty = true
}

// clear takes the line away.
func (l *statusLine) clear() {
	if l.dirty {
		fmt.Fprint(l.to, "\r\x1b[K")
		l.dirty = false
	}
}

// progressStep is how often the line changes, in bytes of a file: about ten times a second.
const progressStep = 64 << 20

// counted tells how much of a large file is read.
type counted struct {
	io.Reader
	n, shown, total int64 // bytes; total 0: not known
	line            *statusLine
	name            string
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	if c.n >= c.shown+progressStep {
		c.shown = c.n
		share := ""
		if c.total > 0 {
			share = fmt.Sprintf(" of %s, %.0f %%", size(c.total), 100*float64(c.n)/float64(c.total))
		}
		c.line.show("reading %s: %s%s", c.name, size(c.n), share)
	}
	return n, err
}

// countedOut tells how much of a large output is written.
type countedOut struct {
	io.Writer
	n, shown int64 // bytes
	step     int64 // bytes between two changes of the line
	line     *statusLine
	what     string
}

func (c *countedOut) Write(b []byte) (int, error) {
	n, err := c.Writer.Write(b)
	c.n += int64(n)
	if c.n >= c.shown+c.step {
		c.shown = c.n
		c.line.show("%s: %s", c.what, size(c.n))
	}
	return n, err
}
