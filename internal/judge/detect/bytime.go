package detect

import "math"

const (
	// MinSeconds a growth must have lasted where there are no steps: what a program reads and builds before it works is
	// mostly there by then, and a leak that ends a program within minutes is still told in time.
	MinSeconds = 20
	// ticks is how many steps stand for a second there: Judge counts in steps.
	ticks = MinSteps / MinSeconds
)

// judge judges a series of the process, by steps or by time.
func (p Process) judge(s Series) Growth {
	g := Judge(p.ticking(s))
	if p.ByTime {
		g = g.perSecond()
	}
	return g
}

// ticking is the series with its seconds as ticks; one of steps stays.
func (p Process) ticking(s Series) Series {
	if !p.ByTime {
		return s
	}
	out := Series{make([]float64, len(s.Steps)), s.Bytes}
	for i, x := range s.Steps {
		out.Steps[i] = x * ticks
	}
	return out
}

// perSecond turns what was judged in ticks into seconds.
func (g Growth) perSecond() Growth {
	g.Rate, g.Low, g.High, g.Unseen = g.Rate*ticks, g.Low*ticks, g.High*ticks, g.Unseen*ticks
	g.Since, g.Start, g.End, g.Needs = g.Since/ticks, g.Start/ticks, g.End/ticks, math.Ceil(g.Needs/ticks)
	if g.Why == TooFewSteps {
		g.because(TooShort)
	}
	return g
}
