// Package skew compares the ranks of a job with each other: which one is odd, since which step, and on which node. It
// takes values by rank, node and step, and returns findings with their intervals; pure functions. It judges ranks
// against their peers at equal steps, so that what all of them do (a warm-up, an evaluation, a longer batch) cancels
// out. Whether a memory leaks by itself is package detect's business.
package skew

import (
	"math"
	"slices"
)

// Unit is what is compared: a rank, or (with Rank < 0) a node.
type Unit struct {
	Rank int
	Node string
}

// maxBuckets bounds the columns of a Grid. A fit at each of them costs their square for each rank; with 64 the judge
// of 8,000 ranks stays far below a second, and a fault is dated to 1.6 % of the run.
const maxBuckets = 64

// MaxUnits bounds the rows of a Grid: 64 columns of 100,000 ranks are 51 MB. Rows beyond it are counted in Refused.
const MaxUnits = 100_000

// Grid holds the lowest value of each unit in each bucket of steps. The lowest is what every step comes back to:
// evaluations, checkpoints and long batches lie above it. Buckets are one step wide at first, and get twice as wide
// whenever there would be more than maxBuckets of them. They begin at multiples of their width, as cells of sessions
// do: a cell that lacks its first step must not fall into another bucket than its peers'.
type Grid struct {
	Refused int64 // values of units beyond MaxUnits, and of no step or no finite value

	units []Unit
	index map[Unit]int
	cells [][]float64 // by unit and bucket; NaN: no value
	last  []int64     // last step by unit
	first int64       // first step of bucket 0
	width int64       // steps
	any   bool
	put   Unit // the last one that a value came for, and its row: rows mostly come by unit
	putAt int
}

// NewGrid makes an empty grid.
func NewGrid() *Grid { return &Grid{index: map[Unit]int{}, width: 1} }

// Add takes one value, in any order.
func (g *Grid) Add(u Unit, step int64, value float64) {
	if step < 0 || step >= math.MaxInt64/4 || math.IsNaN(value) || math.IsInf(value, 0) {
		g.Refused++
		return
	}
	i, ok := g.row(u)
	if !ok {
		g.Refused++
		return
	}
	b := g.bucket(step)
	row := g.cells[i]
	for len(row) <= b {
		row = append(row, math.NaN())
	}
	if !(row[b] <= value) { // also where there is none yet
		row[b] = value
	}
	g.cells[i], g.last[i] = row, max(g.last[i], step)
}

// Len is the number of units.
func (g *Grid) Len() int { return len(g.units) }

func (g *Grid) row(u Unit) (int, bool) {
	if u == g.put && len(g.units) > 0 {
		return g.putAt, true
	}
	if i, ok := g.index[u]; ok {
		g.put, g.putAt = u, i
		return i, true
	}
	if len(g.units) >= MaxUnits {
		return 0, false
	}
	g.index[u] = len(g.units)
	g.units = append(g.units, u)
	g.cells = append(g.cells, nil)
	g.last = append(g.last, -1)
	g.put, g.putAt = u, len(g.units)-1
	return len(g.units) - 1, true
}

// bucket finds the place of a step, and widens the buckets until it has one.
func (g *Grid) bucket(step int64) int {
	if !g.any {
		g.first, g.any = step, true
	}
	if step < g.first {
		g.extendDown(step)
	}
	for (step-g.first)/g.width >= maxBuckets {
		g.widen()
	}
	return int((step - g.first) / g.width)
}

// extendDown makes room for a step before the first one: rows need not come in order.
func (g *Grid) extendDown(step int64) {
	for {
		shift := (g.first - step + g.width - 1) / g.width
		if shift+g.used() <= maxBuckets {
			g.before(shift)
			return
		}
		g.widen()
	}
}

// before puts empty buckets before the first one.
func (g *Grid) before(buckets int64) {
	empty := slices.Repeat([]float64{math.NaN()}, int(buckets))
	for i, row := range g.cells {
		g.cells[i] = append(slices.Clone(empty), row...)
	}
	g.first -= buckets * g.width
}

func (g *Grid) used() int64 {
	n := 0
	for _, row := range g.cells {
		n = max(n, len(row))
	}
	return int64(n)
}

func (g *Grid) widen() {
	if g.first%(2*g.width) != 0 {
		g.before(1)
	}
	g.width *= 2
	for i, row := range g.cells {
		half := row[:0]
		for b := 0; b < len(row); b += 2 {
			v := row[b]
			if b+1 < len(row) && (math.IsNaN(v) || row[b+1] < v) {
				v = row[b+1]
			}
			half = append(half, v)
		}
		g.cells[i] = half
	}
}

// stepOf is the first step of a bucket.
func (g *Grid) stepOf(bucket int) int64 { return g.first + int64(bucket)*g.width }

// columns are the buckets that at least half of the units have a value in, of those that have enough to be judged. The
// last one is left out unless it is full: the lowest of few steps may be an evaluation's.
func (g *Grid) columns() (list []int) {
	judged, units := make([]bool, len(g.cells)), 0
	for i, row := range g.cells {
		values := 0
		for _, v := range row {
			if !math.IsNaN(v) {
				values++
			}
		}
		if judged[i] = values >= least; judged[i] {
			units++
		}
	}
	last := int64(-1)
	for _, l := range g.last {
		last = max(last, l)
	}
	for b := range int(g.used()) {
		if g.stepOf(b+1) > last+1 && g.width > 1 {
			break
		}
		n := 0
		for i, row := range g.cells {
			if judged[i] && b < len(row) && !math.IsNaN(row[b]) {
				n++
			}
		}
		if n > 0 && 2*n >= units {
			list = append(list, b)
		}
	}
	return list
}

// at is the value of a unit in a bucket; NaN for none.
func (g *Grid) at(unit, bucket int) float64 {
	if row := g.cells[unit]; bucket < len(row) {
		return row[bucket]
	}
	return math.NaN()
}

// stays is the grid of what each unit never falls below again.
func (g *Grid) stays() *Grid {
	out := *g
	out.cells = make([][]float64, len(g.cells))
	for i, row := range g.cells {
		row = slices.Clone(row)
		least := math.Inf(1)
		for b := len(row) - 1; b >= 0; b-- {
			if !math.IsNaN(row[b]) {
				least = min(least, row[b])
				row[b] = least
			}
		}
		out.cells[i] = row
	}
	return &out
}

// addAll takes the values of another grid, whose buckets are no wider than those that its steps need here.
func (g *Grid) addAll(other *Grid) {
	g.Refused += other.Refused
	for i, u := range other.units {
		for b, v := range other.cells[i] {
			if !math.IsNaN(v) {
				g.Add(u, other.stepOf(b), v)
			}
		}
		g.Seen(u, other.last[i])
	}
}

// Seen says that a unit has made a step, of which no value may be there.
func (g *Grid) Seen(u Unit, step int64) {
	if i, ok := g.index[u]; ok {
		g.last[i] = max(g.last[i], step)
	}
}
