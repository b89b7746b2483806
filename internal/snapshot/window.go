package snapshot

import (
	"context"
	"fmt"
	"io"
	"sync"
)

// slack is how many bytes lie behind every place where the decoder may begin an opcode, so that it need not ask before
// each operand. The longest opcode is a text of maxText bytes.
const slack = maxText + 4096

// maxText bounds one text, in bytes. The longest honest ones, mangled C++ names, have some thousand.
const maxText = 1 << 20

// pieceSize is how much is read at once, in bytes. Three such buffers keep reading and unpacking on one core busy while
// the other decodes.
const pieceSize = 4 << 20

// piece is a buffer of slack bytes of room, then n bytes of the input, then room for slack zeros.
type piece struct {
	buf []byte
	n   int
	err error // io.EOF after the last byte, or what else ended the input
}

// window shows an input of any length piece by piece, in bounded memory. A goroutine reads ahead; close waits for it.
type window struct {
	full, free chan piece
	stop       context.CancelFunc
	wait       sync.WaitGroup

	d     []byte // what the decoder sees
	end   int    // of the input in d; beyond it are zeros, and only where final
	base  int64  // the offset of d[0] in the input
	final bool   // the input ends in d
	err   error  // why it ended before its time, or nil
	last  piece
}

func newWindow(ctx context.Context, src io.Reader) *window {
	ctx, stop := context.WithCancel(ctx)
	w := &window{full: make(chan piece, 3), free: make(chan piece, 3), stop: stop}
	for range cap(w.free) { // a small file needs one buffer
		w.free <- piece{}
	}
	w.wait.Go(func() { w.read(ctx, src) })
	return w
}

// read fills pieces until the input ends, fails, or nobody wants it any more.
func (w *window) read(ctx context.Context, src io.Reader) {
	defer close(w.full)
	for {
		var p piece
		select {
		case p = <-w.free:
		case <-ctx.Done():
			// there is room: a piece was taken or is missing
			w.full <- piece{buf: make([]byte, 2*slack), err: ctx.Err()}
			return
		}
		if p.buf == nil {
			p.buf = make([]byte, slack+pieceSize+slack)
		}
		p.n, p.err = io.ReadFull(src, p.buf[slack:slack+pieceSize])
		if p.err == io.ErrUnexpectedEOF { // ReadFull's word for a last piece that is not full
			p.err = io.EOF
		}
		w.full <- p
		if p.err != nil {
			return
		}
	}
}

// more moves on: what is left of the piece from p on stands in front of the next one. It returns the new p. Without
// more input nothing changes but final.
func (w *window) more(p int) int {
	next, ok := <-w.full
	if !ok || w.final {
		w.final = true
		return p
	}
	rest := w.d[p:max(p, w.end)]
	from := slack - len(rest)
	copy(next.buf[from:], rest)
	w.base += int64(p)
	w.end = len(rest) + next.n
	w.d = next.buf[from : slack+next.n+slack]
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

// close ends the reading goroutine and waits for it. A read that blocks ends when its file is closed.
func (w *window) close() {
	w.stop()
	for range w.full {
	}
	w.wait.Wait()
}
