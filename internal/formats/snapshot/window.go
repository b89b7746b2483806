package snapshot

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// slack is how many bytes lie behind every place where the decoder may begin an opcode, so that it need not ask before
// each operand. Only texts may be longer: see decoder.text.
const slack = 16 << 10

// maxText bounds one text, in bytes. The longest honest ones, mangled C++ names, have some thousand.
const maxText = 1 << 20

// room is how many bytes of a piece may be left over when the decoder goes on to the next.
const room = maxText + slack

// pieceSize is how much is read at once, in bytes: half of what a core's own cache holds, so that what was read is
// still there when it is searched for runs. Four such buffers keep one core busy with reading, unpacking and searching
// while the other decodes.
const pieceSize, pieces = 1 << 20, 4

// piece is a buffer of room bytes, then n bytes of the input, then room for slack zeros.
type piece struct {
	buf  []byte
	n    int
	err  error // io.EOF after the last byte, or what else ended the input
	runs []run // carriedRuns places, then those in these bytes
	held int64 // bytes that the runFinder holds
}

// window shows an input of any length piece by piece, in bounded memory. Goroutines read ahead and search what was read
// for runs; close waits for them.
type window struct {
	read, full, free chan piece
	stop             context.CancelFunc
	wait             sync.WaitGroup

	d     []byte // what the decoder sees
	end   int    // of the input in d; beyond it are zeros, and only where final
	base  int64  // the offset of d[0] in the input
	final bool   // the input ends in d
	err   error  // why it ended before its time, or nil
	last  piece
	runs  []run // from the one on that the decoder may ask for next
}

func newWindow(ctx context.Context, src io.Reader) *window {
	ctx, stop := context.WithCancel(ctx)
	w := &window{stop: stop} // no sender ever waits: there are so many pieces, and one that says that ctx has ended
	w.read, w.full, w.free = make(chan piece, pieces+1), make(chan piece, pieces+1), make(chan piece, pieces+1)
	for range pieces { // a small file needs one buffer
		w.free <- piece{}
	}
	w.wait.Go(func() { w.fill(ctx, src) })
	w.wait.Go(w.search)
	return w
}

// fill reads pieces until the input ends, fails, or nobody wants it any more.
func (w *window) fill(ctx context.Context, src io.Reader) {
	defer close(w.read)
	for {
		var p piece
		select {
		case p = <-w.free:
		case <-ctx.Done():
			w.read <- piece{buf: make([]byte, room+slack), err: ctx.Err()}
			return
		}
		if p.buf == nil {
			p.buf = make([]byte, room+pieceSize+slack)
		}
		p.n, p.err = io.ReadFull(src, p.buf[room:room+pieceSize])
		if p.err == io.ErrUnexpectedEOF { // ReadFull's word for a last piece that is not full
			p.err = io.EOF
		}
		w.read <- p
		if p.err != nil {
			return
		}
	}
}

// search finds the runs in what was read.
func (w *window) search() {
	defer close(w.full)
	f := runFinder{known: newInterner()}
	base := int64(0)
	for p := range w.read {
		if p.runs == nil {
			p.runs = make([]run, carriedRuns)
		}
		p.runs = f.find(p.runs[:carriedRuns], p.buf[room:room+p.n], base)
		p.held = f.known.bytes()
		base += int64(p.n)
		w.full <- p
	}
}

// more moves on: what is left of the piece from p on, at most room bytes, stands in front of the next one. It returns
// the new p. Without more input nothing changes but final.
func (w *window) more(p int) int {
	next, ok := <-w.full
	if !ok || w.final {
		w.final = true
		return p
	}
	rest := w.d[p:max(p, w.end)]
	from := room - len(rest)
	copy(next.buf[from:], rest)
	w.base += int64(p)
	w.end = len(rest) + next.n
	w.d = next.buf[from : room+next.n+slack]
	w.carry(&next)
	if next.err != nil {
		w.final = true
		clear(w.d[w.end:])
		if next.err != io.EOF {
			w.err = fmt.Errorf("read: %w", next.err)
		}
	} else {
		w.d = w.d[:w.end]
	}
	if w.last.buf != nil {
		w.free <- w.last
	}
	w.last = next
	return 0
}

// carry puts the runs of what is left in front of those of the next piece.
func (w *window) carry(next *piece) {
	for len(w.runs) > 0 && w.runs[0].at < w.base {
		w.runs = w.runs[1:]
	}
	n := min(len(w.runs), carriedRuns)
	copy(next.runs[carriedRuns-n:], w.runs)
	w.runs = next.runs[carriedRuns-n:]
}

// run is the run whose memo reads begin at p of d, if one was found there. p never goes back.
func (w *window) run(p int) (r run, ok bool) {
	at := w.base + int64(p)
	for len(w.runs) > 0 && w.runs[0].at < at {
		w.runs = w.runs[1:]
	}
	if len(w.runs) == 0 || w.runs[0].at != at {
		return run{}, false
	}
	return w.runs[0], true
}

// close ends the reading goroutines and waits for them. A read that blocks ends when its file is closed.
func (w *window) close() {
	w.stop()
	w.wait.Wait()
}
