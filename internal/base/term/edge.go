// Package term owns the terminal: its width, protection from escape sequences in foreign text, and the line at its
// bottom.
package term

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/memgauge/memgauge/internal/base/plain"
)

// edge is the last writer before the terminal: no text from a target, a file or a socket can control the terminal
// through it. Standard error is always an edge. Standard output is one if it is a terminal; results for a file or a
// pipe are written byte for byte, and only prose goes through text.
type edge struct {
	*plain.Writer
	to io.Writer
}

func NewEdge(w io.Writer) *edge { return &edge{plain.NewWriter(w), w} }

// StdoutEdge returns an edge for a terminal, and any other writer as it is.
func StdoutEdge(w io.Writer) io.Writer {
	if TerminalWidth(w) == 0 {
		return w
	}
	return NewEdge(w)
}

// FileOf returns the file behind a stream.
func FileOf(w io.Writer) (*os.File, bool) {
	if e, ok := w.(*edge); ok {
		w = e.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// ProgramOutput is the writer for the output of the user's own code: made safe for a terminal, elsewhere unchanged.
func ProgramOutput(w io.Writer) io.Writer {
	if e, ok := w.(*edge); ok && TerminalWidth(w) == 0 {
		return e.to
	}
	return w
}

// FlushEdges writes the bytes of incomplete characters that edges still hold.
func FlushEdges(streams ...io.Writer) {
	for _, w := range streams {
		if e, ok := w.(*edge); ok {
			_ = e.Flush() // its error can't be printed anywhere
		}
	}
}

func IsTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// TerminalWidth returns the columns of a terminal, 0 if w is none. A terminal that doesn't know its size gets 80.
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
