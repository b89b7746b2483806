package anatomy

import (
	"slices"
	"sort"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Iterations are the training steps of a device's history, as far as they can be told apart.
type Iterations struct {
	By     string // what tells them: an annotation's name, "optimizer", or "" where nothing does
	Starts []int  // the first row of each; rows before the first belong to none
}

// minIterations is how many make a pattern.
const minIterations = 3

var digits = pattern.Of(`[0-9]+`)

// iterationsOf finds a device's iterations: by the profiler's own marks, by what PyTorch's optimizers mark, by another
// mark that comes again and again, or by the optimizer's stacks.
func (h *History) iterationsOf(d *Device) Iterations {
	marks := map[string][]int64{}
	for _, a := range h.Annotations {
		if a.Stage == "START" && (a.Device == d.Number || len(h.Devices) == 1) {
			name := digits().ReplaceAllString(a.Name, "N")
			marks[name] = append(marks[name], a.Time)
		}
	}
	best := ""
	for name, times := range marks {
		if len(times) >= minIterations && (best == "" || markRank(name, times) > markRank(best, marks[best])) {
			best = name
		}
	}
	if best != "" {
		return Iterations{By: best, Starts: h.rowsAt(d, marks[best])}
	}
	if starts := h.optimizerEnds(d); len(starts) >= minIterations {
		return Iterations{By: "optimizer", Starts: starts}
	}
	return Iterations{}
}

// markRank orders annotations by how surely they mark an iteration. Of two like ones the one that comes less often
// holds the other; names decide the rest, so that the answer is the same each time.
func markRank(name string, times []int64) float64 {
	rank := 0.0
	switch {
	case strings.HasPrefix(name, "ProfilerStep"):
		rank = 4
	case strings.HasPrefix(name, "Optimizer.step"):
		rank = 3
	case strings.Contains(strings.ToLower(name), "step") || strings.Contains(strings.ToLower(name), "iter"):
		rank = 2
	}
	return rank + 1/float64(1+len(times)) + float64(len(name)%97)*1e-9
}

// rowsAt finds the rows that follow moments.
func (h *History) rowsAt(d *Device, times []int64) (rows []int) {
	slices.Sort(times)
	for _, t := range times {
		row := d.From + sort.Search(d.To-d.From, func(i int) bool { return h.Time[d.From+i] >= t })
		if row < d.To && (len(rows) == 0 || rows[len(rows)-1] != row) {
			rows = append(rows, row)
		}
	}
	return rows
}

// optimizerEnds are the rows where something else follows the optimizer: a step has ended.
func (h *History) optimizerEnds(d *Device) (rows []int) {
	was := otherPhase
	for i := d.From; i < d.To; i++ {
		is := h.phases[h.Stack[i]]
		if was == optimizerPhase && is != optimizerPhase && is != otherPhase {
			rows = append(rows, i)
		}
		if is != otherPhase {
			was = is
		}
	}
	return rows
}
