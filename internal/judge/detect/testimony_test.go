package detect

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// censusSteps are where a run of some length is looked at: each time it has become a quarter longer.
func censusSteps(n int) (steps []float64) {
	for x := 100.0; len(steps) < n; x *= 1.25 {
		steps = append(steps, math.Round(x))
	}
	return steps
}

// TestConstantGrowthIsNoAccident: of containers whose sizes wander no more than the stated share seem to gain a
// constant number of items a step.
func TestConstantGrowthIsNoAccident(t *testing.T) {
	const runs = 40_000
	sizes := map[string]func(r *rand.Rand, steps []float64) []float64{
		"without memory": func(r *rand.Rand, steps []float64) (ys []float64) {
			for range steps {
				ys = append(ys, math.Round(1000*r.Float64()))
			}
			return ys
		},
		"a random walk": func(r *rand.Rand, steps []float64) (ys []float64) {
			y, at := 1000.0, 0.0
			for _, x := range steps {
				y, at = y+10*math.Sqrt(x-at)*r.NormFloat64(), x
				ys = append(ys, math.Round(y))
			}
			return ys
		},
		"emptied at times": func(r *rand.Rand, steps []float64) (ys []float64) {
			period, phase := 20+60*r.Float64(), r.Float64()
			for _, x := range steps {
				ys = append(ys, math.Round(5*math.Mod(x+phase*period, period)))
			}
			return ys
		},
	}
	for name, make := range sizes {
		for _, m := range []int{3, 4, 5, 8} {
			r := rand.New(rand.NewPCG(uint64(m), 17))
			steps := censusSteps(m)
			for _, level := range []float64{0.05, 0.01, 0.001} {
				found := 0.0
				for range runs / 4 {
					a := account{steps: steps, items: make(r, steps)}
					if p, _ := a.constant(); p < level {
						found += 4.0 / runs
					}
				}
				if bound := level*1.3 + 4*math.Sqrt(level/(runs/4)); found > bound {
					t.Errorf("%s, %d censuses: p < %g in %.4f of the runs", name, m, level, found)
				}
			}
		}
	}
}

// TestTogether: two chances that are independent and even come together below x as often as x.
func TestTogether(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	const runs = 200_000
	for _, level := range []float64{0.1, 0.01, 0.001} {
		found := 0.0
		for range runs {
			if together(r.Float64(), r.Float64()) < level {
				found += 1.0 / runs
			}
		}
		if math.Abs(found-level) > 5*math.Sqrt(level/runs) {
			t.Errorf("below %g in %.5f", level, found)
		}
	}
}

// toothed is a training whose heap swings by 30 MB and, beside that, grows by rate.
func toothed(steps int, rate float64) Process {
	r := rand.New(rand.NewPCG(uint64(steps), 8))
	s := Series{}
	for i := range steps {
		s.Steps = append(s.Steps, float64(i+1))
		s.Bytes = append(s.Bytes, 1e9+rate*float64(i)+30e6*float64(i%37)/37+1e6*r.NormFloat64())
	}
	return Process{PID: 7, Rank: -1, Pace: 0.006, Heap: s, Anon: s}
}

// look at a process's container at some steps.
func (p Process) seen(holder, detail string, at func(step float64) (items, bytes float64), n int) Process {
	for i, x := range censusSteps(n) {
		items, bytes := at(x)
		p.Objects = append(p.Objects, model.ObjectGroup{Evidence: "container", Type: "list", Holder: holder, Count: 1,
			Census: int64(i + 1), Step: int64(x), Length: int64(items), Bytes: int64(bytes), Site: "a.py:3",
			Detail: detail})
	}
	return p
}

var room = Limit{Name: "host 64 GiB", Bytes: 64 << 30, Used: 8 << 30}

func runOf(p Process) Report {
	return Run(Input{Steps: p.Steps(), Processes: []Process{p}, Host: room})
}

// TestMayBend: a cache of masks by length and a vocabulary, as censuses counted them while they filled, and lists that
// gain a constant number, empty or long when the training began.
func TestMayBend(t *testing.T) {
	line := func(from, pace float64) (a account) {
		for _, x := range censusSteps(6) {
			a.steps, a.items = append(a.steps, x), append(a.items, math.Round(from+pace*x))
		}
		return a
	}
	for name, c := range map[string]struct {
		a    account
		want bool
	}{
		"masks": {account{steps: []float64{91, 123, 155, 202}, items: []float64{62, 70, 81, 92}}, true},
		"words": {account{steps: []float64{142, 178, 227, 267, 327, 360, 411},
			items: []float64{188, 208, 231, 246, 269, 280, 299}}, true},
		"from nothing":    {line(0, 0.5), false},
		"long before":     {line(5000, 4), false},
		"some before":     {line(300, 1), false},
		"since step 50":   {line(-25, 0.5), false},
		"a few by chance": {line(2, 0.5), false},
	} {
		if got := c.a.mayBend(c.a.pace(c.a.items)); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestACensusTestifies: a container that gains as many items from census to census makes a leak of what the bytes can't
// show; one with a bound, one that wanders and one of numbers don't.
func TestACensusTestifies(t *testing.T) {
	const steps = 1000
	gains := func(bytes float64) func(float64) (float64, float64) {
		return func(x float64) (float64, float64) { return 4 * x, bytes * x }
	}
	bounded := "of bytes; 100000 at most"
	for name, c := range map[string]struct {
		p    Process
		want Verdict
	}{
		"nothing seen":       {toothed(steps, 4000), Healthy},
		"a list that grows":  {toothed(steps, 4000).seen("__main__.kept", "of bytes", gains(4000), 9), Leak},
		"a deque of 100,000": {toothed(steps, 4000).seen("__main__.kept", bounded, gains(4000), 9), Healthy},
		"numbers":            {toothed(steps, 0).seen("__main__.losses", "of float", gains(40), 9), Healthy},
		"one that wanders": {toothed(steps, 0).seen("__main__.queue", "of bytes", func(x float64) (float64, float64) {
			n := 500 + 300*math.Sin(x)
			return n, n * 4000
		}, 9), Healthy},
		"one that is cleared, beside fragments": {stairs(toothed(steps, 0)).seen("__main__.outputs", "of bytes",
			func(x float64) (float64, float64) {
				n := []float64{11, 2, 6, 12, 16, 2, 17, 15, 27, 23}[slices.Index(censusSteps(10), x)]
				return n, n * 130_000
			}, 10), Healthy},
		"a list that was long before": {toothed(steps, 4000).seen("__main__.kept", "of bytes",
			func(x float64) (float64, float64) { return 5000 + 4*x, 5000*1000 + 4000*x }, 9), Leak},
		"two censuses": {toothed(steps, 4000).seen("__main__.kept", "of bytes", gains(4000), 2), Healthy},
	} {
		r := runOf(c.p)
		if r.Verdict != c.want {
			t.Errorf("%s: %s, want %s: %v", name, r.Verdict, c.want, r.Findings[0].Growth)
		}
		if f := r.Findings[0]; c.want == Leak && (f.Why != Testified || f.Holder != "__main__.kept" ||
			math.Abs(f.Rate-4000) > 50 || f.P >= rising) {
			t.Errorf("%s: %v, held by %q", name, f.Growth, f.Holder)
		}
	}
}

// TestTensorsOfAContainerAtRest: a table is full, and its items have been counted since, but no census has come. What
// censuses saw of its tensors grow before says nothing of the time since, however clear it is.
func TestTensorsOfAContainerAtRest(t *testing.T) {
	const full = 600
	for name, rests := range map[string]bool{"full at step 600": true, "gaining to the end": false} {
		p := toothed(1000, 4000)
		length := func(x float64) float64 {
			if rests {
				x = min(x, full)
			}
			return x
		}
		for i, x := range p.Heap.Steps {
			p.Heap.Bytes[i] -= 4000 * (x - length(x))
		}
		p = p.seen("__main__.table", "of tuple", func(x float64) (float64, float64) { return x, 4000 * x }, 9)
		p = p.tensorsOf("__main__.table[*][*]", "tensor", func(x float64) (float64, float64, float64) {
			return x, 3500 * x, x / 5
		})
		for x := 650.0; x <= 1000; x += 50 {
			p.Objects = append(p.Objects, model.ObjectGroup{Evidence: Count, Type: "list", Holder: "__main__.table",
				Count: 1, Census: 9, Step: int64(x), Length: int64(length(x)), Bytes: model.Null, Site: "a.py:3",
				Detail: "of tuple"})
		}
		if r := runOf(p); (r.Verdict == Leak) == rests {
			t.Errorf("%s: %s, %v", name, r.Verdict, r.Findings[0].Growth)
		}
	}
}

// stairs has the private memory, not the heap, rise by some pages at times: the growth of fragments.
func stairs(p Process) Process {
	p.Anon = Series{Steps: p.Heap.Steps, Bytes: slices.Clone(p.Heap.Bytes)}
	for i := range p.Anon.Bytes {
		p.Anon.Bytes[i] = 1.1e9 + 300e3*math.Floor(float64(i)/130)
	}
	return p
}

// climbing is a training whose heap grows by 1 MB a step.
func climbing() Process {
	return Process{PID: 7, Rank: -1, Pace: 0.1, Heap: growing(1000, 1e6), Anon: growing(1000, 1e6)}
}

// tensorsOf adds what censuses saw of tensors at a place.
func (p Process) tensorsOf(holder, role string, at func(step float64) (count, bytes, fresh float64)) Process {
	for i, x := range censusSteps(9) {
		n, bytes, fresh := at(x)
		p.Tensors = append(p.Tensors, model.TensorGroup{Holder: holder, Role: role, Device: "cpu", Census: int64(i + 1),
			Step: int64(x), Count: int64(n), Bytes: int64(bytes), Fresh: int64(fresh)})
	}
	return p
}

// TestWhatWillStop: growth that censuses know to end is no leak.
func TestWhatWillStop(t *testing.T) {
	many := func(x float64) (float64, float64) { return 4 * x, 1e6 * x }
	few := func(x float64) (float64, float64) { return 4 * x, 1e4 * x }
	list := func(detail string, at func(float64) (float64, float64)) Process {
		return climbing().seen("__main__.kept", detail, at, 9)
	}
	// tensors at a place: how many, how large at first, what they gain a step, whether all are new
	tensors := func(p Process, holder, role string, count, first, gain float64) Process {
		return p.tensorsOf(holder, role, func(x float64) (float64, float64, float64) {
			return count, first + gain*x, count
		})
	}
	slots := climbing().seen("__main__.slots", "of NoneType", func(x float64) (float64, float64) {
		return 2000, 1e6 * x
	}, 9).tensorsOf("__main__.slots[*]", "tensor", func(x float64) (float64, float64, float64) {
		return x, 1e6 * x, 100
	})
	thawed := func(p Process) Process { return tensors(p, "train().optimizer", "optimizer", 9, 0, 1e6) }
	thawing := tensors(climbing(), "train().model", "parameter", 50, 9e8, 0)
	for name, c := range map[string]struct {
		p    Process
		want Verdict
		why  Why
	}{
		"bounded":                    {list("of bytes; 9000 at most", many), Undecided, FillsUp},
		"guarded":                    {list("of bytes; its length is tested", many), Undecided, Guarded},
		"without a bound":            {list("of bytes", many), Leak, Steady},
		"a bounded trickle":          {list("of bytes; 9000 at most", few), Leak, Steady},
		"written by index":           {slots, Undecided, FillsSlots},
		"longer sequences":           {tensors(climbing(), "train().batch", "tensor", 2, 5e8, 1e6), Healthy, Larger},
		"a tensor that is added to":  {tensors(climbing(), "train().all", "tensor", 1, 0, 1e6), Leak, Steady},
		"layers that begin to train": {thawed(thawing), Undecided, Stages},
	} {
		f := runOf(c.p).Findings[0]
		if f.Verdict != c.want || f.Why != c.why {
			t.Errorf("%s: %v", name, f.Growth)
		}
	}
}

// TestDoubtFalls: the longer a growth has lasted the less it may be a buffer, and the less the more is known of its
// holder.
func TestDoubtFalls(t *testing.T) {
	last, p := 1.0, Process{}
	for _, age := range []float64{200, 400, 1000, 10_000} {
		f := Finding{Growth: Growth{Verdict: Leak, Start: 100, End: 100 + age}}
		named := f
		named.Holder = "__main__.kept"
		free := []account{{holder: "__main__.kept", free: true}}
		doubts := []float64{p.after(f.odds(false, nil), age), p.after(f.odds(true, nil), age),
			p.after(named.odds(true, nil), age), p.after(named.odds(true, free), age)}
		if !slices.IsSortedFunc(doubts, func(a, b float64) int { return cmp.Compare(b, a) }) || doubts[0] >= last {
			t.Errorf("%v steps: %.2f, before %.2f", age, doubts, last)
		}
		last = doubts[0]
		over := f
		if p.mayFill(&over, nil, true); over.Verdict != Leak {
			t.Errorf("%v steps of a run that is over: %v", age, over.Growth)
		}
		if p.mayFill(&f, nil, false); (f.Verdict == Leak) != (age > 500) || f.Verdict != Leak && f.Needs <= 0 {
			t.Errorf("%v steps: %v, needs %v", age, f.Growth, f.Needs)
		}
	}
}
