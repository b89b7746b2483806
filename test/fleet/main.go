// Command fleet prints how well the judgement across ranks finds planted faults: simulations of a job of 1,000
// ranks with realistic noise, in each of which up to three ranks (or nodes) have one of five faults, and as many in
// which nothing is wrong.
//
//	go run ./test/fleet [-runs 200] [-ranks 1000] [-steps 2000] [-hard] [-seed 0]
//
// With -hard the noise is of a family that no threshold was chosen by (simulate.Fleet), and seeds should be others too.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"

	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/fleet/skew/simulate"
)

func main() {
	runs := flag.Int("runs", 200, "simulations with faults, and as many without")
	ranks := flag.Int("ranks", 1000, "ranks of the job")
	steps := flag.Int("steps", 2000, "steps of the job")
	seed := flag.Uint64("seed", 0, "of the first simulation; thresholds were chosen by those from 0 to 400")
	hard := flag.Bool("hard", false, "heavy tails, drifting baselines, stragglers")
	show := flag.Bool("v", false, "print what was missed and what was wrong")
	flag.Parse()
	if !table(shape{*runs, *ranks, *steps, *seed, *hard}, *show) {
		os.Exit(1)
	}
}

// tally counts over simulations of one kind of fault.
type tally struct {
	simulations, planted, found, named, said, silent int
}

// goal is what each share shall reach.
const goal = 0.98

// shape is what is simulated.
type shape struct {
	runs, ranks, steps int
	seed               uint64
	hard               bool
}

func table(o shape, show bool) bool {
	tallies := map[skew.Kind]*tally{"": {}}
	for _, k := range simulate.Kinds {
		tallies[k] = &tally{}
	}
	var lock sync.Mutex
	var wait sync.WaitGroup
	next := make(chan int)
	for range runtime.NumCPU() {
		wait.Go(func() {
			for i := range next {
				kind := skew.Kind("")
				if i < o.runs {
					kind = simulate.Kinds[i%len(simulate.Kinds)]
				}
				f := simulate.New(o.seed+uint64(i), kind, o.ranks, o.steps)
				f.Hard = o.hard
				r := judge(f)
				lock.Lock()
				tallies[kind].count(f, r, show)
				lock.Unlock()
			}
		})
	}
	for i := range 2 * o.runs {
		next <- i
	}
	close(next)
	wait.Wait()
	return report(tallies, o.ranks, o.steps)
}

func judge(f simulate.Fleet) skew.Report {
	in := skew.Input{Memory: skew.NewGrid(), Time: skew.NewGrid(), Host: skew.NewGrid()}
	f.Each(in.Memory.Add, in.Time.Add, in.Host.Add)
	return skew.Judge(in)
}

// count compares what was planted with what was said. A fault is found where its unit is reported at all, and named
// where the kind is right as well.
func (t *tally) count(f simulate.Fleet, r skew.Report, show bool) {
	t.simulations++
	t.said += len(r.Findings)
	if len(r.Findings) == 0 {
		t.silent++
	}
	right := 0
	for _, p := range f.Faults {
		t.planted++
		at := slices.IndexFunc(r.Findings, func(x skew.Finding) bool { return x.Rank == p.Rank && x.Node == p.Node })
		if at < 0 {
			if show {
				fmt.Printf("missed: %+v\n", p)
			}
			continue
		}
		t.found++
		right++
		if r.Findings[at].Kind == p.Kind {
			t.named++
		} else if show {
			fmt.Printf("misnamed: %+v as %s since %d\n", p, r.Findings[at].Kind, r.Findings[at].Since)
		}
	}
	if show && right < len(r.Findings) {
		fmt.Printf("wrong: planted %+v, said %+v\n", f.Faults, r.Findings)
	}
}

func report(tallies map[skew.Kind]*tally, ranks, steps int) bool {
	fmt.Printf("%d ranks, %d steps, 1 to 3 odd ranks or nodes in each simulation (a pile-up: rank 0)\n\n", ranks, steps)
	fmt.Println("| fault | simulations | planted | precision | recall | rank named, with its kind |")
	fmt.Println("|---|---|---|---|---|---|")
	all, good := tally{}, true
	for _, k := range simulate.Kinds {
		t := tallies[k]
		t.row(string(k))
		all.simulations, all.planted = all.simulations+t.simulations, all.planted+t.planted
		all.found += t.found
		all.named, all.said = all.named+t.named, all.said+t.said
	}
	all.row("all")
	good = good && share(all.found, all.said) >= goal && share(all.found, all.planted) >= goal &&
		share(all.named, all.planted) >= goal
	healthy := tallies[""]
	fmt.Printf("\nhealthy: silent in %d of %d\n", healthy.silent, healthy.simulations)
	return good && share(healthy.silent, healthy.simulations) >= goal
}

func (t tally) row(name string) {
	fmt.Printf("| %s | %d | %d | %.3f | %.3f | %.3f |\n", name, t.simulations, t.planted, share(t.found, t.said),
		share(t.found, t.planted), share(t.named, t.planted))
}

func share(n, of int) float64 {
	if of == 0 {
		return 1
	}
	return float64(n) / float64(of)
}
