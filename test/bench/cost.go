package main

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	costPairs   = 9 // of each kind; the median is told
	costSeconds = "4"
)

// run is one training of paired.py: the median and the mean of its steps, in ns.
type run struct{ median, mean float64 }

// cost compares whole trainings, bare, observed and with the rival in it, in turns: with a core to spare, and with all of a job's
// processes, the collector too, on one core.
func (b *bench) cost() error {
	core, err := firstCore()
	if err != nil {
		return err
	}
	for _, where := range []string{"a core to spare", "one core for all"} {
		var pin []string
		if where == "one core for all" {
			pin = []string{"taskset", "-c", strconv.Itoa(core)}
		}
		for _, size := range []struct{ name, spare, pinned string }{{"4.5 ms", "≤ 1.005", "≤ 1.010"}, {"0.5 ms", "≤ 1.005", "≤ 1.015"}} {
			goal := size.spare
			if pin != nil {
				goal = size.pinned
			}
			if err := b.paired(size.name, where, goal, pin); err != nil {
				return err
			}
		}
	}
	return nil
}

// paired makes the runs of one row. Each kind comes first, second and last as often.
func (b *bench) paired(size, where, goal string, pin []string) error {
	kinds := []func(out string) *exec.Cmd{
		func(out string) *exec.Cmd { return b.training(pin, size, out) },
		func(out string) *exec.Cmd {
			return b.training(append(pin[:len(pin):len(pin)], b.memgauge, "run", "--quiet", "--"), size, out)
		},
	}
	if b.probing != "" {
		kinds = append(kinds, func(out string) *exec.Cmd { return b.withProbing(pin, size, out) })
	}
	ratios := make([][2][]float64, len(kinds)) // of medians, of means
	var bare []float64
	for i := range costPairs {
		runs := make([]run, len(kinds))
		for j := range kinds {
			k := (i + j) % len(kinds)
			var err error
			if runs[k], err = b.once(kinds[k]); err != nil {
				return err
			}
		}
		bare = append(bare, runs[0].median)
		for k := range runs {
			ratios[k][0] = append(ratios[k][0], runs[k].median/runs[0].median)
			ratios[k][1] = append(ratios[k][1], runs[k].mean/runs[0].mean)
		}
	}
	beside := fmt.Sprintf("bare %.2f ms", median(bare)/1e6)
	if len(kinds) > 2 {
		beside += fmt.Sprintf("; Probing 0.2.4: %.4f (mean %.4f)", median(ratios[2][0]), median(ratios[2][1]))
	}
	b.add(fmt.Sprintf("step of a training observed / bare, %s steps, %s", size, where), goal,
		fmt.Sprintf("%.4f (mean %.4f)", median(ratios[1][0]), median(ratios[1][1])), beside)
	return nil
}

// training is the command of one run behind a prefix.
func (b *bench) training(prefix []string, size, out string) *exec.Cmd {
	args := append(prefix[:len(prefix):len(prefix)], b.python, filepath.Join(b.repo, "test", "bench", "paired.py"), size, costSeconds, out)
	return exec.Command(args[0], args[1:]...)
}

// withProbing has the rival in the process as its own .pth file brings it in, whichever Python has torch.
func (b *bench) withProbing(pin []string, size, out string) *exec.Cmd {
	const enter = "import glob, runpy, site, sys; [site.addsitedir(d) for d in glob.glob(sys.argv[1] + '/lib/python3*/site-packages')]; " +
		"del sys.argv[:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
	script := filepath.Join(b.repo, "test", "bench", "paired.py")
	args := append(pin[:len(pin):len(pin)], b.python, "-c", enter, filepath.Dir(filepath.Dir(b.probing)), script, size, costSeconds, out)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), "PROBING=1", "PYTHONPATH="+filepath.Dir(script))
	return cmd
}

func (b *bench) once(make func(out string) *exec.Cmd) (r run, err error) {
	out := filepath.Join(b.dir, "paired")
	cmd := make(out)
	if text, err := cmd.CombinedOutput(); err != nil {
		return r, fmt.Errorf("%s: %w\n%s", cmd, err, text)
	}
	text, err := os.ReadFile(out)
	if err == nil {
		_, err = fmt.Sscan(string(text), &r.median, &r.mean)
	}
	return r, err
}

// firstCore is the first that we may run on (Cpus_allowed of /proc/self/status, words of 32 bits with the highest first).
func firstCore() (int, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, mask, _ := strings.Cut(string(text), "Cpus_allowed:")
	mask, _, _ = strings.Cut(strings.TrimSpace(mask), "\n")
	words := strings.Split(mask, ",")
	for i := range words {
		word, err := strconv.ParseUint(words[len(words)-1-i], 16, 32)
		if err != nil {
			return 0, fmt.Errorf("read Cpus_allowed: %w", err)
		}
		if word != 0 {
			return 32*i + bits.TrailingZeros64(word), nil
		}
	}
	return 0, fmt.Errorf("no core in Cpus_allowed %q", mask)
}
