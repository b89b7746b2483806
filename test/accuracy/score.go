package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// tally counts what came of programs.
type tally struct {
	leaks, healthy, found, alarms, undecided, hits, classes, failed int
	asked, advised                                                  int // leaks found, and told to do as the twin does

	errors, delays, leaked []float64
	begun, called          int
	watched                int    // healthy programs with verdicts on the way
	early                  [3]int // of them called a leak at each share of the run
}

func print(w io.Writer, results []result) {
	var t tally
	fmt.Fprint(w, "| program | label | 25 % | 50 % | 75 % | end | MB/step (told / true) | class | holder or line |",
		" kind |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		t.add(r)
		rate, class, hit := "", "", ""
		if f := r.end.first(); f != nil {
			class = f.Class
			if f.Rate != nil && !r.ByTime {
				rate = fmt.Sprintf("%.4f / %.4f", *f.Rate*1.048576, r.Rate)
			}
			hit = map[bool]string{true: "right", false: "missed"}[r.hit()]
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | **%s** | %s | %s | %s | %s |\n", r.Name, r.Label, r.early[0].Verdict,
			r.early[1].Verdict, r.early[2].Verdict, r.end.Verdict, rate, class, hit, r.Kind)
	}
	t.print(w)
	wrongs(w, results)
}

// wrongs lists what is not as it should be, with what was said instead.
func wrongs(w io.Writer, results []result) {
	fmt.Fprintln(w, "\nWhat is wrong:")
	for _, r := range results {
		var said []string
		leak := r.Label == "leak"
		if r.end.Verdict != r.Label {
			said = append(said, r.end.Verdict+", is "+r.Label)
		}
		for i, v := range r.early {
			if !leak && v.Verdict == "leak" {
				said = append(said, fmt.Sprintf("alarm at %.0f %%%s", 100*shares[i], v.first()))
			}
		}
		if f := r.end.first(); leak && f != nil {
			if !r.hit() {
				said = append(said, "holder and line missed"+f.String())
			}
			if !slices.Contains(r.Classes, f.Class) {
				said = append(said, fmt.Sprintf("class %s, is %s", f.Class, strings.Join(r.Classes, " or ")))
			}
			if r.Advice != "" && !r.advised() {
				said = append(said, fmt.Sprintf("its advice has no %q", r.Advice))
			}
			if e := r.rateError(); e > 0.25 {
				said = append(said, fmt.Sprintf("rate off by %.0f %%", 100*e))
			}
		} else if !leak && f != nil {
			said = append(said, "said"+f.String())
		}
		if len(said) > 0 {
			fmt.Fprintf(w, "- %s (%s): %s\n", r.Name, r.Kind, strings.Join(said, "; "))
		}
	}
}

// String is what a finding says of who holds the memory.
func (f *finding) String() string {
	if f == nil {
		return ""
	}
	return fmt.Sprintf(" (%s, holder %q, line %q)", f.Memory, f.Holder, f.Site)
}

func (t *tally) add(r result) {
	leak := r.Label == "leak"
	if r.end.Verdict == "undecided" {
		t.undecided++
	}
	if strings.HasPrefix(r.end.Verdict, "failed") {
		t.failed++
	} else if !r.ByTime {
		t.onTheWay(r, leak)
	}
	if !leak {
		t.healthy++
		if r.end.Verdict == "leak" {
			t.alarms++
		}
		return
	}
	t.leaks++
	if r.end.Verdict != "leak" {
		return
	}
	t.found++
	if r.hit() {
		t.hits++
	}
	if r.Advice != "" {
		if t.asked++; r.advised() {
			t.advised++
		}
	}
	if f := r.end.first(); f != nil && slices.Contains(r.Classes, f.Class) {
		t.classes++
	}
	if e := r.rateError(); !math.IsNaN(e) {
		t.errors = append(t.errors, e)
	}
}

// onTheWay counts the verdicts that the first quarter, half and three quarters of a run gave.
func (t *tally) onTheWay(r result, leak bool) {
	if !leak {
		t.watched++
		for i, v := range r.early {
			if v.Verdict == "leak" {
				t.early[i]++
			}
		}
		return
	}
	if r.Start == nil {
		return
	}
	if *r.Start <= r.Steps/4 {
		t.begun++
		if r.early[1].Verdict == "leak" {
			t.called++
		}
	}
	for i, v := range r.early {
		if v.Verdict == "leak" && r.end.Verdict == "leak" {
			delay := r.Steps*shares[i] - *r.Start
			t.delays, t.leaked = append(t.delays, delay), append(t.leaked, delay*r.Rate/1.048576)
			return
		}
	}
}

func (t *tally) print(w io.Writer) {
	if t.failed > 0 {
		fmt.Fprintf(w, "\n%d programs failed, and count as neither told nor alarmed.\n", t.failed)
	}
	fmt.Fprintf(w, "\n| figure | memgauge | asked |\n|---|---|---|\n")
	row := func(name, got, asked string) { fmt.Fprintf(w, "| %s | %s | %s |\n", name, got, asked) }
	row("precision", share(t.found, t.found+t.alarms), "≥ 0.98")
	row("recall", share(t.found, t.leaks), "≥ 0.97")
	row("false alarms", share(t.alarms, t.healthy), "≤ 0.02")
	row("undecided", share(t.undecided, t.leaks+t.healthy), "≤ 0.10")
	row("rate error, median", fmt.Sprintf("%.1f %%", 100*median(t.errors)), "≤ 10 %")
	row("holder or line right, of the leaks found", share(t.hits, t.found), "≥ 0.9")
	row("class right, of the leaks found", share(t.classes, t.found), "≥ 0.95")
	if t.asked > 0 {
		row("advice right, of the leaks found", share(t.advised, t.asked), "≥ 0.95")
	}
	for i, n := range t.early {
		row(fmt.Sprintf("false alarms at %.0f %%", 100*shares[i]), fmt.Sprintf("%s, %.1f in 29", share(n, t.watched),
			29*float64(n)/float64(max(1, t.watched))), "≤ 1 in 29")
	}
	row("called at 50 %, of the leaks begun by 25 %", share(t.called, t.begun), "≥ 0.9")
	row("delay of the first call among 25, 50, 75 %, median",
		fmt.Sprintf("%.0f steps, %.1f MiB leaked", median(t.delays), median(t.leaked)), "")
}

func share(a, b int) string {
	if b == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f (%d of %d)", float64(a)/float64(b), a, b)
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[len(xs)/2]
}
