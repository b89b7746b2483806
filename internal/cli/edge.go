package cli

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

func newEdge(w io.Writer) *edge { return &edge{plain.NewWriter(w), w} }

// stdoutEdge leaves alone what is no terminal.
func stdoutEdge(w io.Writer) io.Writer {
	if terminalWidth(w) == 0 {
		return w
	}
	return newEdge(w)
}

// fileOf is the file behind a stream.
func fileOf(w io.Writer) (*os.File, bool) {
	if e, ok := w.(*edge); ok {
		w = e.to
	}
	f, ok := w.(*os.File)
	return f, ok
}

// programOutput is where the output of a user's own code goes: to a terminal made safe, elsewhere as it is.
func programOutput(w io.Writer) io.Writer {
	if e, ok := w.(*edge); ok && terminalWidth(w) == 0 {
		return e.to
	}
	return w
}

// flushEdges writes what waited to become a whole character.
func flushEdges(streams ...io.Writer) {
	for _, w := range streams {
		if e, ok := w.(*edge); ok {
			_ = e.Flush() // there is nobody left to tell
		}
	}
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// terminalWidth is 0 if w is no terminal. A terminal that doesn't know its size has 80 columns, as ever.
func terminalWidth(w io.Writer) int {
	f, ok := fileOf(w)
	if !ok || !isTerminal(f) {
		return 0
	}
	if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
		return width
	}
	return 80
}
