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
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

// corpus is a folder of labelled programs and what they are run with.
type corpus struct {
	memgauge, python, dir, sessions string
	only                            []string
	parallel                        int           // programs at once
	limit                           time.Duration // for a run: one that hangs does not stop the others
}

// entry is a program's label. MB are 10^6 bytes here.
type entry struct {
	Name     string   `json:"name"`
	File     string   `json:"file"`
	Label    string   `json:"label"`
	Kind     string   `json:"kind"`
	Pair     string   `json:"pair"` // its twin: the same program with the other label
	Rate     float64  `json:"rate_mb_per_step"`
	Resident float64  `json:"resident_rate_mb_per_step"`
	Start    *float64 `json:"start_step"`
	Steps    float64  `json:"steps"`
	Classes  []string `json:"classes"` // any of these is right
	Sites    []string `json:"sites"`
	Holders  []string `json:"holders"`
	Advice   string   `json:"advice"`  // what the twin does, as a part of the advice that says so; "" not told
	ByTime   bool     `json:"by_time"` // it has no steps: rates are by second, and there are no verdicts on the way
}

// verdict is what memgauge leak --json says. MB are 2^20 bytes here.
type verdict struct {
	Verdict  string    `json:"verdict"`
	Class    string    `json:"class"`
	Findings []finding `json:"findings"`
}

type finding struct {
	Verdict string   `json:"verdict"`
	Class   string   `json:"class"`
	Memory  string   `json:"memory"`
	Rate    *float64 `json:"rate_mb_per_step"`
	Start   *float64 `json:"start_step"`
	Site    string   `json:"site"`
	Holder  string   `json:"holder"`
	Advice  []string `json:"advice"`
}

// result of a program: its verdict at the end, and those that a quarter, half and three quarters of the steps gave.
type result struct {
	entry
	end   verdict
	early [3]verdict
}

var shares = [3]float64{0.25, 0.5, 0.75}

// measure runs and judges every program asked for, and prints a table and the figures.
func (c corpus) measure(ctx context.Context, w io.Writer) error {
	programs, err := c.programs()
	if err != nil || len(programs) == 0 {
		return err
	}
	if c.sessions == "" {
		if c.sessions, err = os.MkdirTemp("", "accuracy-"); err != nil {
			return err
		}
		defer os.RemoveAll(c.sessions)
	}
	results := make([]result, len(programs))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, c.parallel))
	for i, e := range programs {
		g.Go(func() error {
			r, err := c.run(ctx, e)
			if err != nil {
				r.end.Verdict = "failed: " + err.Error()
			}
			results[i] = r
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", e.Name, e.Label, r.end.Verdict)
			return ctx.Err()
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	fmt.Fprintf(w, "### %s: %d programs\n\n", c.dir, len(programs))
	print(w, results)
	return nil
}

// programs lists those of the manifest that were asked for.
func (c corpus) programs() ([]entry, error) {
	text, err := os.ReadFile(filepath.Join(c.dir, "manifest.json"))
	if err != nil {
		return nil, err
	}
	var manifest struct{ Programs []entry }
	if err := json.Unmarshal(text, &manifest); err != nil {
		return nil, fmt.Errorf("%s/manifest.json: %w", c.dir, err)
	}
	return slices.DeleteFunc(manifest.Programs, func(e entry) bool {
		return len(c.only) > 0 && !slices.Contains(c.only, e.Name)
	}), nil
}

// run runs a program under observation, unless its session is there and has ended, and judges it as of several steps.
func (c corpus) run(ctx context.Context, e entry) (r result, err error) {
	r.entry = e
	session := filepath.Join(c.sessions, e.Name)
	if _, err := os.Stat(filepath.Join(session, "end.json")); err != nil {
		if err := os.RemoveAll(session); err != nil {
			return r, err
		}
		limited, cancel := context.WithTimeout(ctx, c.limit)
		defer cancel()
		args, remove := alone(e.Name)
		defer remove()
		args = append(args, c.memgauge, "run", "--quiet", "--session", session, "--", c.python,
			filepath.Join(c.dir, e.File))
		cmd := exec.CommandContext(limited, args[0], args[1:]...)
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // memgauge ends the program then
		cmd.WaitDelay = 10 * time.Second
		cmd.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			_ = os.Rename(session, session+".failed") // kept to be looked at, and not judged the next time
			return r, fmt.Errorf("run: %w: %s", err, last(out))
		}
	}
	if r.end, err = c.judge(ctx, session, 0); err != nil {
		return r, err
	}
	for i, share := range shares {
		if e.ByTime {
			break
		}
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

// advised says whether some leaking finding advises what the twin does, which doesn't leak.
func (r result) advised() bool {
	return slices.ContainsFunc(r.end.Findings, func(f finding) bool {
		return f.Verdict == "leak" && strings.Contains(strings.Join(f.Advice, "\n"), r.Advice)
	})
}

// rateError against the retained bytes or the resident growth, whichever is nearer; NaN where no rate was told.
func (r result) rateError() float64 {
	f := r.end.first()
	if f == nil || f.Rate == nil || r.Rate <= 0 || r.ByTime { // by second it differs with the machine
		return math.NaN()
	}
	rate := *f.Rate * 1.048576
	return min(math.Abs(rate-r.Rate)/r.Rate, math.Abs(rate-r.Resident)/r.Resident)
}
