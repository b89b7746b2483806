package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"runtime"
	"sort"
	"sync"

	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/detect/simulate"
)

// rule is a way to raise an alarm on what was seen of a run: bytes at step ends.
type rule struct {
	name  string
	alarm func(ys []float64) bool
}

// stepsPerMinute turns thresholds by time into thresholds by step: steps of 0.1 s.
const stepsPerMinute = 600

var rules = []rule{
	{"memgauge", func(ys []float64) bool { return judge(ys).Verdict == detect.Leak }},
	{"line over the last 10 samples > 10 MB/min", func(ys []float64) bool {
		return slope(ys[max(0, len(ys)-10):]) > 10e6/stepsPerMinute
	}},
	{"100 MB above the first sample", func(ys []float64) bool { return ys[len(ys)-1]-ys[0] > 100e6 }},
	{"Mann–Kendall p < 0.05", mannKendall},
}

func judge(ys []float64) detect.Growth {
	s := detect.Series{Bytes: ys, Steps: make([]float64, len(ys))}
	for i := range ys {
		s.Steps[i] = float64(i + 1)
	}
	return detect.Judge(s)
}

func slope(ys []float64) float64 {
	n := float64(len(ys))
	var mx, my, sxx, sxy float64
	for i, y := range ys {
		mx, my = mx+float64(i)/n, my+y/n
	}
	for i, y := range ys {
		sxx += (float64(i) - mx) * (float64(i) - mx)
		sxy += (float64(i) - mx) * (y - my)
	}
	return sxy / sxx
}

// mannKendall is the test for a monotonic trend as it is commonly used, on 200 evenly spaced samples.
func mannKendall(ys []float64) bool {
	stride := max(1, len(ys)/200)
	var xs []float64
	for i := 0; i < len(ys); i += stride {
		xs = append(xs, ys[i])
	}
	s, n := 0.0, float64(len(xs))
	for i := range xs {
		for j := i + 1; j < len(xs); j++ {
			switch {
			case xs[j] > xs[i]:
				s++
			case xs[j] < xs[i]:
				s--
			}
		}
	}
	return (s-1)/math.Sqrt(n*(n-1)*(2*n+5)/18) > 1.645
}

// outcome is what came of a family's runs.
type outcome struct {
	family    simulate.Family
	alarms    []float64 // by rule, share of the runs
	undecided float64
	early     float64   // share of healthy runs with an alarm at 25, 50 or 75 %, of leaks called by then
	errors    []float64 // of the rate
}

func simulated(w io.Writer, runs int) {
	families := simulate.Families()
	out := make([]outcome, len(families))
	slots, wg := make(chan struct{}, runtime.NumCPU()), sync.WaitGroup{}
	for i, f := range families {
		slots <- struct{}{}
		wg.Add(1)
		go func() {
			defer func() { <-slots; wg.Done() }()
			out[i] = simulateFamily(f, runs)
		}()
	}
	wg.Wait()
	fmt.Fprintf(w, "%d runs of %d steps in each family; alarm rates at the end of the run.\n\n| family |", runs,
		simulate.Steps)
	for _, r := range rules {
		fmt.Fprintf(w, " %s |", r.name)
	}
	fmt.Fprint(w, " undecided | at 25, 50 or 75 % | rate error (median) |\n|---|")
	for range len(rules) + 3 {
		fmt.Fprint(w, "---|")
	}
	fmt.Fprintln(w)
	for _, o := range out {
		kind := "healthy: "
		if o.family.Leak {
			kind = "leak: "
		}
		if !o.family.Seen {
			kind = "leak within its noise: "
		}
		fmt.Fprintf(w, "| %s%s |", kind, o.family.Name)
		for _, a := range o.alarms {
			fmt.Fprintf(w, " %.3f |", a)
		}
		rate := ""
		if len(o.errors) > 0 {
			sort.Float64s(o.errors)
			rate = fmt.Sprintf("%.1f %%", 100*o.errors[len(o.errors)/2])
		}
		fmt.Fprintf(w, " %.3f | %.3f | %s |\n", o.undecided, o.early, rate)
	}
}

func simulateFamily(f simulate.Family, runs int) outcome {
	o := outcome{family: f, alarms: make([]float64, len(rules))}
	one := 1 / float64(runs)
	for k := range uint64(runs) {
		ys := f.Run(rand.New(rand.NewPCG(k, 2026)))
		for i, r := range rules {
			if i > 0 && r.alarm(ys) {
				o.alarms[i] += one
			}
		}
		switch g := judge(ys); {
		case g.Verdict == detect.Leak:
			o.alarms[0] += one
			if f.Leak {
				o.errors = append(o.errors, math.Abs(g.Rate/f.Rate-1))
			}
		case g.Verdict == detect.Undecided:
			o.undecided += one
		}
		for _, part := range []int{4, 2} {
			if judge(ys[:len(ys)/part]).Verdict == detect.Leak ||
				part == 2 && judge(ys[:len(ys)*3/4]).Verdict == detect.Leak {
				o.early += one
				break
			}
		}
	}
	return o
}
