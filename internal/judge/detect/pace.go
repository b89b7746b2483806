package detect

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/base/stats"
	"github.com/memgauge/memgauge/internal/base/units"
)

// A limit is met by what a process takes, not by what it keeps: malloc leaves gaps between what is kept, and gives back
// no page that has a kept byte in it. How much that is depends on what else the program allocates (measured: nothing to
// forty times what is kept), comes in stages, and mostly ends; so it is read off the process, and nothing is assumed.
const (
	// holey is how many times as fast as what is kept a process must grow for that to be told.
	holey = 1.5
	// ownHoles is how much of such growth speaks for a leak that is too slow to matter by itself: more is not its own.
	ownHoles = 4
)

// rate of something that grows, with its interval of 95 %.
type rate struct{ is, low, high float64 }

func (a rate) plus(b rate) rate { return rate{a.is + b.is, a.low + b.low, a.high + b.high} }

func (a rate) by(x float64) rate { return rate{a.is * x, a.low * x, a.high * x} }

// fillRate is how fast a memory fills, bytes/s.
type fillRate struct {
	rate
	own float64 // of that, what counts for a leak that is slow by itself
}

// growth is what a process keeps and what its private memory grows by beyond that, bytes a step.
type growth struct {
	kept, beyond rate
	mean         float64 // beyond what it keeps, since the growth began
}

// private is the growth of a process, as far as its leaks are private. What its memory grew by of late says what is to
// come; a curve that flattens will rise by as little as it says. Holes come in stages: the mean of the younger three
// quarters may come again, and is the least upper end.
func (j judgement) private() (g growth) {
	from := math.Inf(1)
	for _, f := range j.findings {
		if f.Verdict == Leak && f.charged() {
			g.kept, from = g.kept.plus(rate{f.Rate, f.Low, f.High}), min(from, f.Start)
		}
	}
	s := j.process.Anon.clean().from(from).floors(blocks)
	if len(s.Steps) < minFloors {
		return g
	}
	for i, x := range s.Steps {
		s.Bytes[i] -= g.kept.is * x
	}
	half, most := s.from(s.Steps[0]+s.width()/2), s.from(s.Steps[0]+s.width()/4)
	if len(half.Steps) < minFloors/2 { // it is read ever more seldom
		half, most = s, s
	}
	if s.total() > material {
		g.mean = s.mean()
	}
	late := stats.FitTrend(half.Steps, half.Bytes)
	g.beyond.is = late.Slope
	g.beyond.low, g.beyond.high = late.Interval(0.95)
	g.beyond.high = max(g.beyond.high, most.mean())
	quarter, end := s.from(s.Steps[0]+0.75*s.width()), s.Steps[len(s.Steps)-1]
	slows := quarter.mean() < half.mean() && half.mean() < s.mean()
	if c := stats.FitCurve(s.Steps, s.Bytes); slows && c.Evidence > flattens {
		g.beyond.is = min(g.beyond.is, c.Slope(end, end+s.width()))
	}
	if g.beyond.is*half.width() < material { // less than the pieces that allocators take
		g.beyond.is, g.beyond.high = 0, min(g.beyond.high, material/half.width())
	}
	g.beyond.low = max(0, min(g.beyond.low, g.beyond.is))
	g.beyond.high = max(g.beyond.high, g.beyond.is)
	return g
}

// mean is what a series grew by a step, from its first to its last reading; 0 of a single one.
func (s Series) mean() float64 {
	if len(s.Steps) < 2 {
		return 0
	}
	return s.total() / s.width()
}

// charged says that the finding's memory is private memory of its process.
func (f *Finding) charged() bool {
	switch f.Memory {
	case Shared, Mapped, Device, Reserved, Cache, Outside:
		return false
	}
	return true
}

// growths adds up how fast leaks fill the host's memory ("") and each device: all processes of a job run into the same
// limit.
func growths(judged []judgement) map[string]fillRate {
	sum, shared := map[string]fillRate{}, fillRate{}
	add := func(device string, r rate, own float64) {
		sum[device] = fillRate{sum[device].plus(r), sum[device].own + own}
	}
	for i := range judged {
		j := &judged[i]
		pace := j.process.Pace
		if pace <= 0 {
			continue
		}
		for _, f := range j.findings {
			r := rate{f.Rate, f.Low, f.High}.by(1 / pace)
			switch {
			case f.Verdict != Leak:
			case f.Memory == Shared && r.is > shared.is: // the processes map the same pages
				shared = fillRate{r, r.is}
			case f.Device != "":
				add(f.Device, r, r.is)
			}
		}
		if j.growth = j.private(); j.growth.kept.is > 0 {
			kept, all := j.growth.kept.is/pace, j.growth.kept.plus(j.growth.beyond).by(1/pace)
			add("", all, min(all.is, ownHoles*kept))
		}
	}
	add("", shared.rate, shared.own)
	return sum
}

// beside tells of a leak in the heap what the process grows by, where that is more: gaps between what is kept, which
// malloc can't give back. It is what a screen of processes shows, and what the limit goes by.
func (f *Finding) beside(g growth) {
	kept := g.kept.is
	if f.Verdict != Leak || f.Memory != Heap || kept+max(g.mean, g.beyond.is) < holey*kept {
		return
	}
	of := func(bytes float64) units.Bytes { return units.Bytes(math.Round(bytes)) }
	now := g.kept.plus(g.beyond)
	text := fmt.Sprintf("it keeps %s a %s; the process grows by %s (%s to %s)", of(kept), f.Unit(), of(now.is),
		of(max(0, now.low)), of(now.high))
	if was := kept + g.mean; was > holey*now.is || now.is > holey*was {
		text += fmt.Sprintf(" of late, and grew by %s in the mean since %s %.0f,", of(was), f.Unit(), f.Start)
	}
	text += " because of holes between what is kept and other growth"
	if f.Limit != "" {
		text += "; the limit goes by that"
	}
	f.Evidence = append(f.Evidence, text)
}
