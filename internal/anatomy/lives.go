package anatomy

import (
	"sync"

	"github.com/memgauge/memgauge/internal/snapshot"
)

// Life is a block from its beginning to its end: rows, and a block of the end where the history has no alloc of it.
// What is not in the file is None.
type Life struct{ Alloc, Free, Block int32 }

// Lives are the blocks of a device: those that were there at the end and before the history, those that were there
// before it and freed in it, then those that were allocated in it, by the row of their alloc.
func (h *History) Lives(d *Device) []Life {
	allocs := 0
	for i := d.From; i < d.To; i++ {
		if h.Action[i] == snapshot.IsAlloc {
			allocs++
		}
	}
	out := make([]Life, 0, len(d.Old)+len(d.OldFrees)+allocs)
	for _, b := range d.Old {
		out = append(out, Life{None, None, int32(b)})
	}
	for _, i := range d.OldFrees {
		out = append(out, Life{None, int32(i), None})
	}
	for i := d.From; i < d.To; i++ {
		if h.Action[i] == snapshot.IsAlloc {
			out = append(out, Life{int32(i), h.Partner[i], None})
		}
	}
	return out
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

// Site is where a stack comes from, "file:line function": the user's innermost frame; "" for a stack without frames.
func (h *History) Site(stack uint32) string { return h.sites[stack].place }

// Path is the user's functions of a stack, outermost first; "" where none is the user's.
func (h *History) Path(stack uint32) string { return h.sites[stack].path }

// Own tells whether a file is the user's own Python, no library.
func Own(file string) bool { return isUserFile(file) }

// CategoryNames are the names of all categories, by number.
func CategoryNames() []string { return categoryNames[:] }
