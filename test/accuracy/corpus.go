package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// corpus is a folder of labelled programs and what they are run with.
type corpus struct {
	memgauge, python, dir, sessions string
	only                            []string
}

// entry is a program's label. MB are 10^6 bytes here.
type entry struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	Label    string   `json:"label"`
	Kind     string   `json:"kind"`
	Rate     float64  `json:"rate_mb_per_step"`
	Resident float64  `json:"resident_rate_mb_per_step"`
	Start    *float64 `json:"start_step"`
	Steps    float64  `json:"steps"`
	Sites    []string `json:"sites"`
	Holders  []string `json:"holders"`
}

// verdict is what memgauge leak --json says. MB are 2^20 bytes here.
type verdict struct {
	Verdict  string    `json:"verdict"`
	Findings []finding `json:"findings"`
}

type finding struct {
	Verdict string   `json:"verdict"`
	Class   string   `json:"class"`
	Rate    *float64 `json:"rate_mb_per_step"`
	Start   *float64 `json:"start_step"`
	Site    string   `json:"site"`
	Holder  string   `json:"holder"`
}

// result of a program: its verdict at the end, and those that a quarter, half and three quarters of the steps gave.
type result struct {
	entry
	end   verdict
	early [3]verdict
}

var shares = [3]float64{0.25, 0.5, 0.75}

func (c corpus) measure(ctx context.Context, w io.Writer) error {
	text, err := os.ReadFile(filepath.Join(c.dir, "manifest.json"))
	if err != nil {
		return err
	}
	var manifest struct{ Programs []entry }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return fmt.Errorf("manifest.json: %w", err)
	}
	if c.sessions == "" {
		if c.sessions, err = os.MkdirTemp("", "accuracy-"); err != nil {
			return err
		}
		defer os.RemoveAll(c.sessions)
	}
	var results []result
	for _, e := range manifest.Programs {
		if len(c.only) > 0 && !slices.Contains(c.only, e.Name) {
			continue
		}
		r, err := c.run(ctx, e)
		if err != nil {
			return fmt.Errorf("%s: %w", e.Name, err)
		}
		fmt.Fprintf(os.Stderr, "%s %s\n", e.Name, r.end.Verdict)
		results = append(results, r)
	}
	print(w, results)
	return nil
}

// run runs a program under observation, unless its session is there, and judges it as of several steps.
func (c corpus) run(ctx context.Context, e entry) (r result, err error) {
	r.entry = e
	session := filepath.Join(c.sessions, e.Name)
	if _, err := os.Stat(filepath.Join(session, "end.json")); err != nil {
		cmd := exec.CommandContext(ctx, c.memgauge, "run", "--quiet", "--session", session, "--", c.python,
			filepath.Join(c.dir, e.File))
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			return r, fmt.Errorf("run: %w: %s", err, last(out))
		}
	}
	if r.end, err = c.judge(ctx, session, 0); err != nil {
		return r, err
	}
	for i, share := range shares {
		if r.early[i], err = c.judge(ctx, session, int(e.Steps*share)); err != nil {
			return r, err
		}
	}
	return r, nil
}

func (c corpus) judge(ctx context.Context, session string, until int) (v verdict, err error) {
	out, err := exec.CommandContext(ctx, c.memgauge, "leak", "--session", session, "--json", "--until",
		fmt.Sprint(until)).Output()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 3) { // 3: there is a leak
		if exit != nil {
			err = fmt.Errorf("%w: %s", err, last(exit.Stderr))
		}
		return v, fmt.Errorf("leak: %w", err)
	}
	return v, json.Unmarshal(out, &v)
}

func last(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

func (v verdict) first() *finding {
	for i := range v.Findings {
		if v.Findings[i].Verdict == "leak" {
			return &v.Findings[i]
		}
	}
	return nil
}

var place = regexp.MustCompile(`([\w.-]+\.py):(\d+)`)

// hit says whether some leaking finding names an accepted line or holder.
func (r result) hit() bool {
	for _, f := range r.end.Findings {
		if f.Verdict != "leak" {
			continue
		}
		if m := place.FindString(f.Site); m != "" && slices.Contains(r.Sites, m) {
			return true
		}
		for _, h := range r.Holders {
			name := h[strings.LastIndexByte(h, '.')+1:]
			if slices.Contains(regexp.MustCompile(`\w+`).FindAllString(f.Holder, -1), name) {
				return true
			}
		}
	}
	return false
}

// rateError against the retained bytes or the resident growth, whichever is nearer; NaN where no rate was told.
func (r result) rateError() float64 {
	f := r.end.first()
	if f == nil || f.Rate == nil {
		return math.NaN()
	}
	rate := *f.Rate * 1.048576
	return min(math.Abs(rate-r.Rate)/r.Rate, math.Abs(rate-r.Resident)/r.Resident)
}

type tally struct {
	leaks, healthy, found, missed, alarms, undecided, hits int
	errors, delays, leaked                                 []float64
	begun, called, early                                   int
}

func print(w io.Writer, results []result) {
	var t tally
	fmt.Fprintln(w,
		"| program | label | 25 % | 50 % | 75 % | end | MB/step (told / true) | class | holder or line | kind |\n|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range results {
		t.add(r)
		f := r.end.first()
		rate, class, hit := "", "", ""
		if f != nil {
			class = f.Class
			if f.Rate != nil {
				rate = fmt.Sprintf("%.4f / %.4f", *f.Rate*1.048576, r.Rate)
			}
			hit = map[bool]string{true: "right", false: "missed"}[r.hit()]
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | **%s** | %s | %s | %s | %s |\n", r.Name, r.Label, r.early[0].Verdict,
			r.early[1].Verdict, r.early[2].Verdict, r.end.Verdict, rate, class, hit, r.Kind)
	}
	t.print(w)
}

func (t *tally) add(r result) {
	leak := r.Label == "leak"
	if r.end.Verdict == "undecided" {
		t.undecided++
	}
	for i, v := range r.early {
		called := v.Verdict == "leak"
		if !leak && called {
			t.early++
		}
		if leak && i == 1 && r.Start != nil && *r.Start <= r.Steps/4 {
			t.begun++
			if called {
				t.called++
			}
		}
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
		t.missed++
		return
	}
	t.found++
	if r.hit() {
		t.hits++
	}
	if e := r.rateError(); !math.IsNaN(e) {
		t.errors = append(t.errors, e)
	}
	for i, v := range r.early {
		if v.Verdict == "leak" && r.Start != nil {
			delay := r.Steps*shares[i] - *r.Start
			t.delays, t.leaked = append(t.delays, delay), append(t.leaked, delay*r.Rate/1.048576)
			break
		}
	}
}

func (t *tally) print(w io.Writer) {
	share := func(a, b int) string {
		if b == 0 {
			return "-"
		}
		return fmt.Sprintf("%.3f (%d of %d)", float64(a)/float64(b), a, b)
	}
	fmt.Fprintf(w, "\n| figure | memgauge | asked |\n|---|---|---|\n")
	row := func(name, got, asked string) { fmt.Fprintf(w, "| %s | %s | %s |\n", name, got, asked) }
	row("precision", share(t.found, t.found+t.alarms), "≥ 0.98")
	row("recall", share(t.found, t.leaks), "≥ 0.95")
	row("false alarms", share(t.alarms, t.healthy), "≤ 0.02")
	row("undecided", share(t.undecided, t.leaks+t.healthy), "≤ 0.10")
	row("rate error, median", fmt.Sprintf("%.1f %%", 100*median(t.errors)), "≤ 10 %")
	row("holder or line right, of the leaks found", share(t.hits, t.found), "≥ 0.9")
	row("false alarms at 25, 50 or 75 %", fmt.Sprint(t.early), "0")
	row("called at 50 %, of the leaks begun by 25 %", share(t.called, t.begun), "≥ 0.9")
	row("delay of the first call among 25, 50, 75 %, median",
		fmt.Sprintf("%.0f steps, %.1f MiB leaked", median(t.delays), median(t.leaked)), "")
}

func median(xs []float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	xs = slices.Clone(xs)
	slices.Sort(xs)
	return xs[len(xs)/2]
}
