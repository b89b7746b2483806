package skew

import (
	"math"
	"slices"
	"sync"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Kind is what is odd about a unit.
type Kind string

const (
	Leak     Kind = "leak"      // a rank grows along a line while its peers don't
	Step     Kind = "step"      // a rank holds more from some step on
	PileUp   Kind = "pile-up"   // a rank holds more from the beginning: mostly rank 0, for the others
	Lagging  Kind = "lagging"   // a rank reaches its steps ever later than its peers, or makes none any more
	HostLeak Kind = "host leak" // the memory of a node grows while that of other nodes doesn't
)

// Input is what is compared; each may be nil.
type Input struct {
	Memory *Grid // bytes at step ends, by rank
	// Process is what each rank's process holds on the host, where Memory is a device's.
	Process *Grid
	Time    *Grid // seconds since the epoch at which steps ended, by rank; each node's own clock
	Host    *Grid // bytes that a node uses, by node (Unit.Rank < 0), at steps of its ranks
}

// Finding is one odd unit. Excess and Pace are bytes and bytes a step; of a lagging rank seconds, and seconds a step.
type Finding struct {
	Kind         Kind    `json:"kind"`
	Rank         int     `json:"rank"`             // -1: of the node
	Memory       string  `json:"memory,omitempty"` // "host": the rank's process there, while its Memory is a device's
	Node         string  `json:"node"`
	Since        int64   `json:"since_step"` // first step of the bucket in which it departs from its peers
	Z            float64 `json:"z"`          // robust, over units at equal steps
	ZLow         float64 `json:"z_low"`      // 95 % interval
	ZHigh        float64 `json:"z_high"`
	Excess       float64 `json:"excess"` // above its peers, at the end
	Pace         float64 `json:"pace"`   // a step; 0 where it came at once
	PaceLow      float64 `json:"pace_low"`
	PaceHigh     float64 `json:"pace_high"`
	LastStep     int64   `json:"last_step"`
	PeerLastStep int64   `json:"peer_last_step"` // median of all
}

// Slope is the growth of one rank over the run, above that of its peers.
type Slope struct {
	Rank   int     `json:"rank"`
	Node   string  `json:"node"`
	Excess float64 `json:"excess"` // bytes above its peers at the end
	Pace   float64 `json:"pace"`   // bytes a step of it, since it departs
	Since  int64   `json:"since_step"`
	Z      float64 `json:"z"`
}

// Report says which units are odd, the earliest first.
type Report struct {
	Ranks    int       `json:"ranks"`
	Nodes    int       `json:"nodes"`
	Findings []Finding `json:"findings"`
	Slopes   []Slope   `json:"slopes"`   // of every rank, steepest first
	Warnings []string  `json:"warnings"` // why something could not be compared
}

// leastUnits is how many there must be: of two that differ nobody knows which is odd, and a median of three is moved
// by none of them alone.
const leastUnits = 4

// oddZ is the distance from which a unit is odd. It stands far beyond the 3.3 that the largest of a thousand normal
// values reaches: memory is not normal, and ranks at the border of two pipeline stages have peers of both.
const oddZ = 8

// A difference must also matter: below a share of what units hold, and below some bytes, nobody acts on it.
const (
	leastShare = 0.005
	leastBytes = 32 << 20
	equalShare = 0.0002 // below this share of the level, differences are those of equal ranks
	equalBytes = 1 << 20
	leastLate  = 2.0 // seconds
	equalLate  = 0.1 // seconds: the grain of clocks and schedulers
)

// Judge compares the units of each grid, all grids at once: they have nothing in common.
func Judge(in Input) Report {
	r := Report{Findings: []Finding{}, Slopes: []Slope{}, Warnings: []string{}} // lists in JSON, never null
	parts := make([]Report, 4)
	var all sync.WaitGroup
	judge := func(part int, g *Grid, how func(*Report, *Grid)) {
		if g != nil {
			all.Go(func() { how(&parts[part], g) })
		}
	}
	judge(0, in.Memory, (*Report).memory)
	if in.Process != nil && in.Process.Len() > 0 {
		judge(1, in.Process, (*Report).process)
	}
	judge(2, in.Time, (*Report).lateness)
	judge(3, in.Host, (*Report).hosts)
	all.Wait()
	for _, p := range parts {
		r.Findings, r.Slopes = append(r.Findings, p.Findings...), append(r.Slopes, p.Slopes...)
		r.Warnings = append(r.Warnings, p.Warnings...)
	}
	for _, g := range []*Grid{in.Memory, in.Time} {
		if g != nil {
			r.Ranks, r.Nodes = max(r.Ranks, g.Len()), max(r.Nodes, nodesOf(g))
		}
	}
	if in.Host != nil {
		r.Nodes = max(r.Nodes, in.Host.Len())
	}
	order.Stable(r.Findings, func(a, b Finding) int {
		switch {
		case a.Since != b.Since:
			return compareInt(a.Since, b.Since)
		case a.Z != b.Z:
			return compareNaN(b.Z, a.Z)
		}
		return a.Rank - b.Rank
	})
	return r
}

func compareInt(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func nodesOf(g *Grid) int {
	seen := map[string]bool{}
	for _, u := range g.units {
		seen[u.Node] = true
	}
	return len(seen)
}

// incomparable says why the units of a grid can't be compared, "" if they can.
func incomparable(g *Grid, what string, columns []int) string {
	switch {
	case g.Len() < leastUnits:
		return what + ": fewer than four to compare"
	case len(columns) < least:
		return what + ": fewer than eight steps in common"
	}
	return ""
}

// departed is a unit with its change and how odd that is.
type departed struct {
	unit         int
	change       change
	z, low, high float64
}

// departures finds the change of every unit, and how far it lies above those of the others.
func departures(g *Grid, columns []int, floor float64) []departed {
	var out []departed
	var excesses []float64
	for i, ys := range deviations(g, columns) {
		if c, ok := depart(ys); ok {
			out = append(out, departed{unit: i, change: c})
			excesses = append(excesses, c.excess)
		}
	}
	s := scoreOf(excesses, floor)
	for i := range out {
		out[i].z, out[i].low, out[i].high = s.z(out[i].change.excess, out[i].change.err)
	}
	return out
}

// odd says that a change stands out, and is more than what nobody would act on.
func (d departed) odd(material float64) bool {
	return d.z >= oddZ && d.low > oddZ/2 && d.change.excess >= material
}

func (r *Report) memory(g *Grid) {
	columns := g.columns()
	if why := incomparable(g, "ranks", columns); why != "" {
		r.Warnings = append(r.Warnings, why)
		return
	}
	level := math.Abs(middle(levels(g, columns)))
	material := max(leastBytes, leastShare*level)
	floor := max(equalBytes, equalShare*level)
	last := lastOf(g)
	for _, d := range departures(g, columns, floor) {
		f := d.finding(g, columns, last, Leak)
		r.Slopes = append(r.Slopes, Slope{Rank: f.Rank, Node: f.Node, Excess: f.Excess, Pace: f.Pace,
			Since: f.Since, Z: f.Z})
		if !d.odd(material) {
			continue
		}
		if !d.change.line {
			f.Kind = Step
		}
		r.Findings = append(r.Findings, f)
	}
	order.Stable(r.Slopes, func(a, b Slope) int { return compareNaN(b.Pace, a.Pace) })
	r.pileUp(g, columns, floor, material)
}

// process judges the memory of ranks' processes on the host. The slopes stay those of Memory.
func (r *Report) process(g *Grid) {
	var host Report
	host.memory(g)
	for _, f := range host.Findings {
		f.Memory = "host"
		r.Findings = append(r.Findings, f)
	}
	for _, why := range host.Warnings {
		r.Warnings = append(r.Warnings, "processes on the host: "+why)
	}
}

// finding turns a change in columns into one in steps.
func (d departed) finding(g *Grid, columns []int, last int64, kind Kind) Finding {
	u := g.units[d.unit]
	f := Finding{Kind: kind, Rank: u.Rank, Node: u.Node, Since: g.stepOf(columns[d.change.at]), Z: d.z, ZLow: d.low,
		ZHigh: d.high, Excess: d.change.excess, LastStep: g.last[d.unit], PeerLastStep: last}
	if d.change.line {
		steps := float64(g.stepOf(columns[len(columns)-1]) - f.Since)
		f.Pace = f.Excess / steps
		f.PaceLow, f.PaceHigh = f.Pace-1.96*d.change.err/steps, f.Pace+1.96*d.change.err/steps
	}
	return f
}

// lastOf is the median of the units' last steps.
func lastOf(g *Grid) int64 {
	last := slices.Clone(g.last)
	slices.Sort(last)
	return last[len(last)/2]
}

// fewOdd is how many units may be odd without becoming what is normal.
const fewOdd = 3

// pileUp finds units that hold more than their neighbours from the beginning. Levels come in groups (stages of a
// pipeline, experts), and ranks of a group are numbered in a row, so a unit is compared with the ranks before it and
// with those after it, few and more, and the nearest counts: at the border of two groups one side is its own, and in
// the middle of a small group only the nearest ranks are. Who has two neighbours of its level has not piled up alone.
func (r *Report) pileUp(g *Grid, columns []int, floor, material float64) {
	level := levels(g, columns[:max(1, len(columns)/4)])
	order := make([]int, 0, len(level))
	for i, v := range level {
		if !math.IsNaN(v) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return g.units[a].Rank - g.units[b].Rank })
	above := make([]float64, len(order))
	for k, i := range order {
		above[k] = math.NaN()
		for _, n := range []int{fewOdd, leastPeers} { // a median of three is moved by none of them alone
			before := middleOf(level, order[max(0, k-n):k])
			after := middleOf(level, order[k+1:min(len(order), k+1+n)])
			above[k] = nearer(nearer(level[i]-before, level[i]-after), above[k])
		}
	}
	s := scoreOf(above, floor)
	for k, i := range order {
		z, low, high := s.z(above[k], 0)
		if u := g.units[i]; above[k] >= 4*material && z >= oddZ && low >= oddZ/2 && !r.departs(u) {
			r.Findings = append(r.Findings, Finding{Kind: PileUp, Rank: u.Rank, Node: u.Node, Since: g.first, Z: z,
				ZLow: low, ZHigh: high, Excess: above[k], LastStep: g.last[i], PeerLastStep: lastOf(g)})
		}
	}
}

// middleOf is the median level of some units; NaN for none.
func middleOf(level []float64, of []int) float64 {
	values := make([]float64, len(of))
	for k, i := range of {
		values[k] = level[i]
	}
	return middle(values)
}

// nearer is the smaller of two distances; where there is but one, that.
func nearer(a, b float64) float64 {
	if math.IsNaN(b) || !math.IsNaN(a) && math.Abs(a) <= math.Abs(b) {
		return a
	}
	return b
}

// departs says that a unit was found to depart from its peers: what it holds more came then.
func (r *Report) departs(u Unit) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Rank == u.Rank && f.Node == u.Node })
}

// lateness finds ranks that fall behind: they end equal steps ever later, or end none any more.
func (r *Report) lateness(g *Grid) {
	columns := g.columns()
	if why := incomparable(g, "times", columns); why != "" {
		r.Warnings = append(r.Warnings, why)
		return
	}
	found := map[int]bool{}
	for _, d := range departures(g, columns, equalLate) {
		if d.odd(leastLate) {
			found[d.unit] = true
			r.Findings = append(r.Findings, d.finding(g, columns, lastOf(g), Lagging))
		}
	}
	r.stopped(g, found)
}

// stopped finds ranks whose last step lies behind that of the others by more than ranks differ.
func (r *Report) stopped(g *Grid, found map[int]bool) {
	behind := make([]float64, g.Len())
	last := lastOf(g)
	for i, l := range g.last {
		behind[i] = float64(last - l)
	}
	s := scoreOf(behind, 1)
	material := max(10, 0.01*float64(last-g.first))
	for i, b := range behind {
		z, low, high := s.z(b, 0)
		if found[i] || z < oddZ || low < oddZ/2 || b < material {
			continue
		}
		u := g.units[i]
		r.Findings = append(r.Findings, Finding{Kind: Lagging, Rank: u.Rank, Node: u.Node, Since: g.last[i], Z: z,
			ZLow: low, ZHigh: high, LastStep: g.last[i], PeerLastStep: last})
	}
}

func (r *Report) hosts(g *Grid) {
	columns := g.columns()
	if why := incomparable(g, "nodes", columns); why != "" {
		r.Warnings = append(r.Warnings, why)
		return
	}
	g = g.stays() // page cache and workers come and go, what leaks does not
	level := math.Abs(middle(levels(g, columns)))
	for _, d := range departures(g, columns, max(equalBytes, equalShare*level)) {
		if d.change.line && d.odd(max(leastBytes, leastShare*level)) {
			r.Findings = append(r.Findings, d.finding(g, columns, lastOf(g), HostLeak))
		}
	}
}
