// Package term owns the terminal: how wide it is, that nothing of others steers it, and the line at its bottom.
package term

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/memgauge/memgauge/internal/plain"
)

// edge is the last writer on the way to a person: whatever a target, a file or a socket has put into a text, it can't
// steer the terminal. Standard error is always one. Standard output is one where it is a terminal; into a file or a
// pipe a result goes byte for byte, and only what is prose goes through text.
type edge struct {
	*plain.Writer
	to io.Writer
}

func NewEdge(w io.Writer) *edge { return &edge{plain.NewWriter(w), w} }

// StdoutEdge leaves alone what is no terminal.
func StdoutEdge(w io.Writer) io.Writer {
	if TerminalWidth(w) == 0 {
		return w
	}
	return NewEdge(w)
}

// FileOf is the file behind a stream.
func FileOf(w io.Writer) (*os.File, bool) {
	if e, ok := w.(*edge); ok {
		w = e.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// ProgramOutput is where the output of a user's own code goes: to a terminal made safe, elsewhere as it is.
func ProgramOutput(w io.Writer) io.Writer {
	if e, ok := w.(*edge); ok && TerminalWidth(w) == 0 {
		return e.to
	}
	return w
}

// FlushEdges writes what waited to become a whole character.
func FlushEdges(streams ...io.Writer) {
	for _, w := range streams {
		if e, ok := w.(*edge); ok {
			_ = e.Flush() // there is nobody left to tell
		}
	}
}

func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// TerminalWidth is 0 if w is no terminal. A terminal that doesn't know its size has 80 columns, as ever.
func TerminalWidth(w io.Writer) int {
	f, ok := FileOf(w)
	if !ok || !IsTerminal(f) {
		return 0
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}
