package anatomy

import (
	"bytes"
	"sync"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Life is a block from its beginning to its end: rows, and a block of the end where the history has no alloc of it.
// What is not in the file is None.
type Life struct{ Alloc, Free, Block int32 }

// Lives are the blocks of a device, from the first to the last: those that were there at the end and before the
// history, those that were there before it and freed in it, then those that were allocated in it, by the row of their
// alloc.
type Lives struct {
	h         *History
	d         *Device
	left      int
	old, free int // that were given, of the device's Old and OldFrees
	row       int // where the next alloc is looked for
	given     []Life
}

// Lives begins with the first.
func (h *History) Lives(d *Device) *Lives {
	return &Lives{h: h, d: d, row: d.From,
		left: len(d.Old) + len(d.OldFrees) + bytes.Count(h.Action[d.From:d.To], []byte{snapshot.IsAlloc})}
}

// Left is how many are still to come.
func (l *Lives) Left() int { return l.left }

// Next gives the next n, of which there must be so many. They hold until it is called again: three million blocks are
// never together in memory.
func (l *Lives) Next(n int) []Life {
	l.given, l.left = l.given[:0], l.left-n
	for ; len(l.given) < n && l.old < len(l.d.Old); l.old++ {
		l.given = append(l.given, Life{None, None, int32(l.d.Old[l.old])})
	}
	for ; len(l.given) < n && l.free < len(l.d.OldFrees); l.free++ {
		l.given = append(l.given, Life{None, int32(l.d.OldFrees[l.free]), None})
	}
	for ; len(l.given) < n; l.row++ {
		if l.h.Action[l.row] == snapshot.IsAlloc {
			l.given = append(l.given, Life{int32(l.row), l.h.Partner[l.row], None})
		}
	}
	return l.given
}

// Uses tells for every row what its block is for: rows of alloc and of free_completed have one, others UnknownUse.
func (h *History) Uses() []Category {
	uses := make([]Category, h.Len())
	var wait sync.WaitGroup
	for part := range useParts {
		from, to := part*len(uses)/useParts, (part+1)*len(uses)/useParts
		wait.Go(func() {
			for i := from; i < to; i++ {
				if h.Action[i] == snapshot.IsAlloc {
					uses[i] = h.Category(i)
				}
			}
		})
	}
	wait.Wait()
	for i := range uses {
		if h.Action[i] == snapshot.IsFreeCompleted && h.Partner[i] != None {
			uses[i] = uses[h.Partner[i]]
		}
	}
	return uses
}

// useParts is over how many cores the uses are worked out: six million events take a third of a second on one.
const useParts = 2

// Site is where a stack comes from, "file:line function": the user's innermost frame, else the one that tells most;
// NoPython if none does, "" for a stack without frames.
func (h *History) Site(stack uint32) string { return h.sites[stack].place }

// Path is the user's functions of a stack, outermost first; "" where none is the user's.
func (h *History) Path(stack uint32) string { return h.sites[stack].path }

// Own tells whether a file is the user's own Python, no library.
func Own(file string) bool { return isUserFile(file) }

// Recorder tells whether a frame belongs to what recorded the stack.
func Recorder(f snapshot.Frame) bool { return isRecorder(f) }

// CategoryNames are the names of all categories, by number.
func CategoryNames() []string { return categoryNames[:] }
