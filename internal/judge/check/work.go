package check

import (
	"errors"
	"time"

	sitter "github.com/tree-sitter/go-tree-sitter"
	"golang.org/x/sys/unix"
)

// Whoever wrote a file doesn't choose how long it is read. Work is counted, in steps and not in time, so that the same
// file always ends at the same place. A step looks at one node, or at so many bytes of text.

const (
	bytesAStep = 16 // comparing and matching a text of that length costs about as much as a look at a node

	// A match of an expression takes some 0.3 µs, and 50 ns for each byte.
	stepsAMatch, stepsAMatchedByte = 20, 4
	maxMatches                     = 1 << 16 // whose answers are kept

	// A step takes some 15 ns. The floor is a second; the rest is ten times what the hardest of 8,000 files of Python,
	// PyTorch and other packages needs.
	leastSteps   = 50_000_000
	stepsPerByte = 100

	// What a file's findings may be, at most. A reader has given up long before, and each holds lines and places.
	maxFindings = 1000
	maxLines    = 1000 // places that take part in a finding
	maxLine     = 1000 // bytes of a line that is kept with a finding: nobody prints longer ones
)

// stepsFor is how many steps may be made for a text of some bytes.
func stepsFor(size int) int { return leastSteps + stepsPerByte*size }

// spent is the panic that leaves a rule when a file's steps are used up; within stops it.
type spent struct{}

// spend takes steps off what is left.
func (t *tree) spend(steps int) {
	if t.left -= steps; t.left < 0 {
		panic(spent{})
	}
}

// within does some work, and reports whether the steps were enough for it.
func (t *tree) within(work func()) (done bool) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case spent{}:
		default:
			panic(r)
		}
	}()
	work()
	return true
}

var errHard = errors.New("the parser needs far more work for it than for source that people write")

// parserWork bounds what tree-sitter does for one text: its operations, and the bytes that its lexer asks for, since
// Python's lexer looks past all comments and blank lines for the next indentation at each of them.
type parserWork struct {
	src   []byte
	calls int           // calls of tooMuch that are left, one for each hundred operations
	reads int           // bytes that may still be read; negative: it was too much
	fuse  time.Duration // of CPU time, on this thread
	began time.Duration
}

const (
	// chunk is what the lexer gets at a time, in bytes. It asks again when it goes back, which is what is counted: with
	// the whole text at once nothing would be. The binding keeps each chunk until the parser is done.
	chunk = 4096
	// The hardest honest source takes four operations a byte, and 3 MB of reading for 81 KB with long comments.
	operationsPerByte, leastOperations = 20, 1_000_000
	readsPerByte, leastReads           = 20, 16 << 20
	// At each error tree-sitter makes the node of all errors before it again (ts_parser__recover_to_state), which takes
	// the square of the errors and counts no operation. So there is a clock as well, of CPU time, for nothing but that:
	// ten times what whole source takes, which is half a second a MiB.
	fuse, fuseAMiB = 5 * time.Second, 10 * time.Second
)

func newParserWork(src []byte) *parserWork {
	return &parserWork{src: src, calls: (leastOperations + operationsPerByte*len(src)) / 100,
		reads: leastReads + readsPerByte*len(src), fuse: fuse + fuseAMiB*time.Duration(len(src))>>20}
}

// read gives the lexer the text from a byte on.
func (w *parserWork) read(at int, _ sitter.Point) []byte {
	if at >= len(w.src) || w.reads < 0 {
		return nil
	}
	part := w.src[at:min(at+chunk, len(w.src))]
	w.reads -= len(part)
	return part
}

// start sets the clock; the parser runs on the thread that calls it.
func (w *parserWork) start() { w.began = threadTime() }

// tooMuch stops the parser.
func (w *parserWork) tooMuch(sitter.ParseState) bool {
	w.calls--
	return w.calls < 0 || w.reads < 0 || threadTime()-w.began > w.fuse
}

// threadTime is the CPU time that this thread has used.
func threadTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_THREAD, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
