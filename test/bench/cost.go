package main

import (
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const costSeconds = "4" // of steps that are timed, in each run

// run is one training of paired.py: the median and the mean of its steps, and the median of their CPU time, in ns.
type run struct{ median, mean, cpu float64 }

// costs are measurements that compare whole trainings, bare, observed and with the rival in it, in turns: with a core
// to spare, and with all of a job's processes, the collector too, on one core.
func (b *bench) costs() (list []measurement) {
	for _, c := range []struct {
		size, goal string
		pinned     bool
	}{{"4.5 ms", "≤ 1.005", false}, {"0.5 ms", "≤ 1.005", false}, {"4.5 ms", "≤ 1.010", true},
		{"0.5 ms", "≤ 1.015", true}} {
		where := "a core to spare"
		if c.pinned {
			where = "all on one core"
		}
		list = append(list, measurement{"cost, " + c.size + " steps, " + where,
			func() error { return b.paired(c.size, where, c.goal, c.pinned) }})
	}
	return list
}

// paired makes the runs of one row. Each kind comes first, second and last as often.
func (b *bench) paired(size, where, goal string, pinned bool) error {
	var pin []string
	if pinned {
		core, err := firstCore()
		if err != nil {
			return err
		}
		pin = []string{"taskset", "-c", strconv.Itoa(core)}
	}
	kinds := []func(out string) *exec.Cmd{
		func(out string) *exec.Cmd { return b.training(pin, size, out) },
		func(out string) *exec.Cmd {
			return b.training(append(pin[:len(pin):len(pin)], b.memgauge, "run", "--quiet", "--"), size, out)
		},
	}
	if b.probing != "" {
		kinds = append(kinds, func(out string) *exec.Cmd { return b.withProbing(pin, size, out) })
	}
	ratios := make([]ratios, len(kinds))
	var bare []float64
	for i := range b.pairs {
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
			ratios[k].add(runs[k], runs[0])
		}
	}
	beside := fmt.Sprintf("bare %.2f ms, %d runs", median(bare)/1e6, b.pairs)
	if len(kinds) > 2 {
		beside += "; Probing 0.2.4: " + ratios[2].String()
	}
	b.add(fmt.Sprintf("step of a training observed / bare, %s steps, %s", size, where), goal, ratios[1].String(),
		beside)
	return nil
}

// ratios are those of runs to the bare runs beside them.
type ratios struct{ medians, means, cpu []float64 }

func (r *ratios) add(with, bare run) {
	r.medians, r.means = append(r.medians, with.median/bare.median), append(r.means, with.mean/bare.mean)
	r.cpu = append(r.cpu, with.cpu/bare.cpu)
}

// String tells the median of the ratios of median steps and their middle half, which says what this machine can tell
// apart; and the medians for mean steps and for CPU time.
func (r ratios) String() string {
	m := slices.Sorted(slices.Values(r.medians))
	return fmt.Sprintf("%.4f (half of the runs %.3f to %.3f; mean step %.4f; CPU time %.4f)", median(m), m[len(m)/4],
		m[len(m)-1-len(m)/4], median(r.means), median(r.cpu))
}

// training is the command of one run behind a prefix.
func (b *bench) training(prefix []string, size, out string) *exec.Cmd {
	args := append(prefix[:len(prefix):len(prefix)], b.python, filepath.Join(b.repo, "test", "bench", "paired.py"),
		size, costSeconds, out)
	return exec.Command(args[0], args[1:]...)
}

// withProbing has the rival in the process as its own .pth file brings it in, whichever Python has torch.
func (b *bench) withProbing(pin []string, size, out string) *exec.Cmd {
	const enter = "import glob, runpy, site, sys; [site.addsitedir(d) for d in glob.glob(sys.argv[1] + '/lib/python3*/site-packages')]; " +
		"del sys.argv[:2]; runpy.run_path(sys.argv[0], run_name='__main__')"
	script := filepath.Join(b.repo, "test", "bench", "paired.py")
	args := append(pin[:len(pin):len(pin)], b.python, "-c", enter, filepath.Dir(filepath.Dir(b.probing)), script, size,
		costSeconds, out)
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
		_, err = fmt.Sscan(string(text), &r.median, &r.mean, &r.cpu)
	}
	return r, err
}

// firstCore is the first that we may run on (Cpus_allowed of /proc/self/status, words of 32 bits with the highest
// first).
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
