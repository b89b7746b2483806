package detect

import (
	"cmp"
	"math"

	"github.com/memgauge/memgauge/internal/formats/wire"
)

const (
	// MinSeconds a growth must have lasted where there are no steps: what a program reads and builds before it works is
	// mostly there by then, and a leak that ends a program within minutes is still told in time. The same holds for a
	// server, whatever its pace: it makes hundreds of requests while its caches get their first entries.
	MinSeconds = 20
	// ripeSeconds is the time in which half of what fills by design in a server is full: its caches fill by the
	// request, and it makes hundreds of these a second.
	ripeSeconds = 60
	// ticks is how many steps stand for a second where there are none: Judge counts in steps.
	ticks = MinSteps / MinSeconds
)

// unitNames are what units of work are called, which are no steps of a training, by their kind.
var unitNames = map[string]string{wire.WorkKinds[1]: "inference", wire.WorkKinds[2]: "engine step",
	wire.WorkKinds[3]: "request", wire.WorkKinds[4]: "cell"}

// unitOf is what rates are by, and what start and end count.
func unitOf(work string, byTime bool) string {
	if byTime {
		return "second"
	}
	return cmp.Or(unitNames[work], "step")
}

// per is a unit as it stands behind a slash.
func per(unit string) string {
	if unit == "second" {
		return "s"
	}
	return unit
}

// serves says that the process's steps are units of a server's work.
func (p Process) serves() bool { return !p.ByTime && unitNames[p.Work] != "" }

// tick is how many of Judge's steps stand for one of the series': the least that a growth must have lasted is MinSteps
// of them. A step of a training is one.
func (p Process) tick() float64 {
	switch {
	case p.ByTime:
		return ticks
	case p.serves() && p.Pace > 0:
		return min(1, MinSteps*p.Pace/MinSeconds)
	}
	return 1
}

// judge judges a series of the process, by steps, units of work or time.
func (p Process) judge(s Series) Growth { return p.judgeFrom(s, MinSteps) }

// judgeFrom is judge of growth that must have lasted for least ticks.
func (p Process) judgeFrom(s Series, least float64) Growth {
	tick := p.tick()
	g := judgeFrom(ticking(s, tick), least, p.load(tick))
	if tick != 1 {
		g = g.perUnit(tick)
	}
	if p.ByTime && g.Why == TooFewSteps {
		g.because(TooShort)
	}
	return g
}

// ticking is a series with its steps as ticks.
func ticking(s Series, tick float64) Series {
	if tick == 1 {
		return s
	}
	out := Series{make([]float64, len(s.Steps)), s.Bytes}
	for i, x := range s.Steps {
		out.Steps[i] = x * tick
	}
	return out
}

// perUnit turns what was judged in ticks into the unit of the series.
func (g Growth) perUnit(tick float64) Growth {
	g.Rate, g.Low, g.High, g.Unseen = g.Rate*tick, g.Low*tick, g.High*tick, g.Unseen*tick
	g.Since, g.Start, g.End, g.Needs = g.Since/tick, g.Start/tick, g.End/tick, math.Ceil(g.Needs/tick)
	if tick < 1 { // units of work: they are whole
		g.Since, g.Start, g.End = math.Round(g.Since), math.Round(g.Start), math.Round(g.End)
	}
	return g
}

// ripe is what a growth must have lasted for half of what fills by design to be full, in the finding's unit.
func (p Process) ripe() float64 {
	switch {
	case p.ByTime:
		return MinSeconds
	case p.serves() && p.Pace > 0:
		return max(MinSteps, ripeSeconds/p.Pace)
	}
	return MinSteps
}

// wait is how many units more of growth that may end are waited for.
func (p Process) wait(f *Finding) float64 {
	tick := p.tick()
	return math.Ceil(promised((f.End-f.Start)*tick) / tick)
}
