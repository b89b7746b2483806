package detect

import (
	"fmt"
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/stats"
)

// A server holds more while it works on more at once, and on longer requests: what grows with the load is no leak. So
// growth must show between moments of equal load: the later one at most equally more loaded than the earlier one, by
// requests a second and by tokens a request, as far as these are told.
const (
	// aboutEqual is by how much more load is no more: what a rate over a stretch is uncertain by.
	aboutEqual = 1.02
	// comparable loads differ by so much at the most: far below, what a server holds says nothing.
	comparable = 1.25
	// apart is the share of a window that two moments lie apart at the least for its growth to show between them.
	apart = 1.0 / 3
	// fairly is the share that pairs of equal load must have of all comparable ones. Under a load that rises by itself
	// only the uncertain ones look so; under one that stays, or comes and goes, it is half.
	fairly = 0.25
)

// load is what a process that serves worked on.
type load struct {
	clock  Series  // units done and seconds
	tokens Series  // units done and tokens in all; none where nobody told
	tick   float64 // ticks a unit
	unit   string
}

// load is nil for a training, and where nobody knows when its units ended.
func (p Process) load(tick float64) *load {
	if !p.serves() || len(p.Clock.Steps) < 2 {
		return nil
	}
	return &load{ticking(p.Clock, tick), ticking(p.Tokens, tick), tick, unitOf(p.Work, false)}
}

// at is the value at a step, between readings by the line between them.
func (s Series) at(step float64) float64 {
	i, found := slices.BinarySearch(s.Steps, step)
	switch {
	case found || i == 0:
		return s.Bytes[i]
	case i == len(s.Steps):
		return s.Bytes[i-1]
	}
	share := (step - s.Steps[i-1]) / (s.Steps[i] - s.Steps[i-1])
	return s.Bytes[i-1] + share*(s.Bytes[i]-s.Bytes[i-1])
}

// between are units a second and tokens a unit from one step to another; tokens NaN where nobody told.
func (l *load) between(from, to float64) (pace, size float64) {
	pace, size = (to-from)/(l.clock.at(to)-l.clock.at(from)), math.NaN()
	if len(l.tokens.Steps) > 1 {
		size = (l.tokens.at(to) - l.tokens.at(from)) / (to - from)
	}
	return pace, size
}

const (
	// follows is the share of a memory's ups and downs from stretch to stretch that the load's explain (r²) where it
	// follows the load: of two that have nothing to do with each other, 64 stretches explain a quarter in 1 of 30,000.
	follows = 0.25
)

// level takes out of a series what the load makes of it: by as much as the memory changes with the load from stretch to
// stretch, in which nothing else grows by much. So a leak shows beneath the swing of day and night.
func (l *load) level(s Series) Series {
	if l == nil || len(s.Steps) < minFloors {
		return s
	}
	half := s.width() / (2 * blocks)
	pace := func(x float64) float64 {
		pace, _ := l.between(max(s.Steps[0], x-half), min(s.Steps[len(s.Steps)-1], x+half))
		return pace
	}
	f := s.floors(blocks)
	var xx, xy, yy float64
	for i := 1; i < len(f.Steps); i++ {
		x, y := pace(f.Steps[i])-pace(f.Steps[i-1]), f.Bytes[i]-f.Bytes[i-1]
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return s
		}
		xx, xy, yy = xx+x*x, xy+x*y, yy+y*y
	}
	if !(xy > 0) || xy*xy < follows*xx*yy {
		return s
	}
	out, end := Series{s.Steps, make([]float64, len(s.Bytes))}, pace(s.Steps[len(s.Steps)-1])
	for i, x := range s.Steps {
		out.Bytes[i] = s.Bytes[i] - xy/xx*(pace(x)-end)
	}
	return out
}

// grows says why a window's growth is none at equal load; NoReason where it is one, or where there is no load.
func (l *load) grows(w *window) (why Why) {
	if l == nil {
		return NoReason
	}
	w.equal, why = l.atEqualLoad(w)
	return why
}

// atEqualLoad is what a window's growth is between moments of equal load, bytes a tick; why it says nothing of a leak,
// or NoReason.
func (l *load) atEqualLoad(w *window) (slope float64, why Why) {
	f := w.floors
	n := len(f.Steps)
	paces, sizes := make([]float64, n), make([]float64, n)
	for i := range n {
		paces[i], sizes[i] = l.between(f.Steps[max(0, i-1)], f.Steps[min(n-1, i+1)])
	}
	all := 0
	var slopes []float64
	for i := range n {
		for k := i + 1; k < n; k++ {
			if f.Steps[k]-f.Steps[i] < apart*w.width() {
				continue
			}
			pace, size := paces[k]/paces[i], 1.0
			if !math.IsNaN(sizes[i]) && sizes[i] > 0 {
				size = sizes[k] / sizes[i]
			}
			if !alike(pace) || !alike(size) {
				continue
			}
			if all++; pace <= aboutEqual && size <= aboutEqual {
				slopes = append(slopes, (f.Bytes[k]-f.Bytes[i])/(f.Steps[k]-f.Steps[i]))
			}
		}
	}
	if len(slopes) < n/2 || float64(len(slopes)) < fairly*float64(all) {
		return math.Inf(1), OtherLoad
	}
	if slope = stats.Median(slopes); slope*w.width() <= max(material, overNoise*w.noise) {
		return slope, WithLoad
	}
	return slope, NoReason
}

func alike(ratio float64) bool { return ratio <= comparable && ratio*comparable >= 1 }

// words are the load from one step to another, for people.
func (l *load) words(from, to float64) string {
	if l == nil {
		return ""
	}
	if !(l.clock.at(to) > l.clock.at(from)) {
		return ""
	}
	pace, size := l.between(from, to)
	text := fmt.Sprintf("%s %ss/s", figure(pace/l.tick), l.unit)
	if size > 0 {
		text += fmt.Sprintf(" of %s tokens", figure(size*l.tick))
	}
	return text
}

func figure(x float64) string {
	if x >= 10 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.2g", x)
}
