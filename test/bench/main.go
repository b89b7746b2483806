// Command bench measures what memgauge costs and how fast it answers, each time beside the bare run or a rival in the
// same minute, and prints one table, each row as soon as it is known. It judges nothing: the machine may be shared.
// Build memgauge first; see `make bench`. Parts: -list names them, -only runs some.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// bench is what the measurements share.
type bench struct {
	memgauge, python, probing string
	repo, dir                 string
	pairs                     int // of trainings that are compared
}

// measurement is a part of the table that can be run alone.
type measurement struct {
	name string
	run  func() error
}

func main() {
	b := &bench{}
	flag.StringVar(&b.memgauge, "memgauge", "bin/memgauge", "the program")
	flag.StringVar(&b.python, "python", "python3", "a Python with torch")
	flag.StringVar(&b.probing, "probing", "", "the rival's command, if it is installed")
	flag.StringVar(&b.repo, "repo", ".", "the checkout")
	flag.IntVar(&b.pairs, "pairs", 9, "how many trainings of each kind are compared; their median is told")
	only := flag.String("only", "", "run only measurements whose name contains this")
	list := flag.Bool("list", false, "name the measurements")
	flag.Parse()
	if *list {
		for _, m := range b.measurements() {
			fmt.Println(m.name)
		}
		return
	}
	if err := b.run(*only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// measurements are those of one table, in its order.
func (b *bench) measurements() []measurement {
	list := []measurement{{"start", b.start}, {"query", b.query}, {"eval", b.eval}, {"collector at rest", b.atRest}}
	list = append(list, b.costs()...)
	return append(list, measurement{"ring write", b.ringWrite}, measurement{"samplers", b.samplers},
		measurement{"database", b.database},
		measurement{"allocator", b.allocator}, measurement{"trainer", b.trainer})
}

func (b *bench) run(only string) error {
	var err error
	if b.dir, err = os.MkdirTemp("", "memgauge-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	for _, p := range []*string{&b.memgauge, &b.repo} {
		if *p, err = filepath.Abs(*p); err != nil {
			return err
		}
	}
	os.Setenv("MEMGAUGE_HOME", filepath.Join(b.dir, "home"))
	os.Unsetenv("MEMGAUGE_TARGET")
	fmt.Printf("| what | goal | measured | beside it |\n|---|---|---|---|\n")
	for _, m := range b.measurements() {
		if !strings.Contains(m.name, only) {
			continue
		}
		fmt.Fprintf(os.Stderr, "measuring %s …\n", m.name)
		if err := m.run(); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// add prints a row of the table.
func (b *bench) add(what, goal, got, beside string) {
	fmt.Printf("| %s | %s | %s | %s |\n", what, goal, got, beside)
}

// timed is how long a command took, in ms.
func timed(name string, args ...string) (float64, error) {
	cmd := exec.Command(name, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	t := time.Now()
	_, err := cmd.Output()
	if err != nil {
		return 0, fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.String())
	}
	return float64(time.Since(t).Microseconds()) / 1000, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// start compares, in pairs, when a command's first line of Python runs and when all is over, with and without us.
func (b *bench) start() error {
	var bare, with, first, whole, version []float64
	for range 31 {
		v, err := timed(b.memgauge, "--version")
		if err != nil {
			return err
		}
		x, xAll, err := b.firstLine(b.python)
		if err != nil {
			return err
		}
		y, yAll, err := b.firstLine(b.memgauge, "run", "--quiet", "--", b.python)
		if err != nil {
			return err
		}
		version, bare, with = append(version, v), append(bare, x), append(with, y)
		first, whole = append(first, y-x), append(whole, yAll-xAll)
	}
	beside := fmt.Sprintf("bare %.0f ms, observed %.0f ms", median(bare), median(with))
	b.add("start of `run`: the first line of Python comes later by", "≤ +50 ms", fmt.Sprintf("+%.0f ms", median(first)),
		beside)
	b.add("the same with the end, until the last row is stored", "", fmt.Sprintf("+%.0f ms", median(whole)), "")
	b.add("`memgauge --version`", "≤ 3 ms", fmt.Sprintf("%.1f ms (shortest %.1f)", median(version),
		slices.Min(version)), b.startOf())
	return nil
}

// firstLine is how long a command with Python at its end took until Python ran its first line, and until it was over,
// in ms.
func (b *bench) firstLine(command ...string) (first, whole float64, err error) {
	cmd := exec.Command(command[0], append(command[1:], "-c", "import time; print(time.time_ns())")...)
	begin := time.Now()
	out, err := cmd.Output()
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", cmd, err)
	}
	whole = float64(time.Since(begin).Microseconds()) / 1000
	at, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w", cmd, err)
	}
	return float64(at-begin.UnixNano()) / 1e6, whole, nil
}

// rows is a training that has made 6,000 rows and then waits, its main thread coming by every half millisecond.
func (b *bench) rows() (*job, error) {
	return b.job("rows", "all", filepath.Join(b.repo, "test", "bench", "rows.py"), "6000")
}

func (b *bench) query() error {
	job, err := b.rows()
	if err != nil {
		return err
	}
	defer job.end()
	var all []float64
	for _, sql := range seedStatements(b.repo) {
		ms, err := b.repeat(15, job.pid, "query", sql)
		if err != nil {
			return err
		}
		all = append(all, median(ms))
	}
	b.add("`query`, the seeds' statements, 6,000 rows", "≤ 11 ms",
		fmt.Sprintf("%.1f ms (slowest statement %.1f)", median(all), slices.Max(all)), b.rival("query", "SELECT 1"))
	return nil
}

func (b *bench) eval() error {
	job, err := b.rows()
	if err != nil {
		return err
	}
	defer job.end()
	ms, err := b.repeat(41, job.pid, "eval", "1+1")
	if err != nil {
		return err
	}
	b.add("`eval \"1+1\"`, the main thread free", "≤ 6 ms", fmt.Sprintf("%.1f ms", median(ms)),
		b.rival("eval", "print(1+1)"))
	return nil
}

// repeat runs a command of ours so often and tells how long each took, in ms.
func (b *bench) repeat(times int, args ...string) (ms []float64, err error) {
	for range times {
		x, err := timed(b.memgauge, args...)
		if err != nil {
			return nil, err
		}
		ms = append(ms, x)
	}
	return ms, nil
}

// job is a command under observation that goes on until it is ended.
type job struct {
	cmd     *exec.Cmd
	pid     string // of the trainer
	session string
}

func (b *bench) job(name, trace, script string, args ...string) (*job, error) {
	session := filepath.Join(b.dir, name)
	ready := session + ".ready"
	cmd := exec.Command(b.memgauge, append([]string{"run", "--quiet", "--trace", trace, "--session", session, "--",
		b.python, script, ready}, args...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	j := &job{cmd: cmd, session: session}
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		text, _ := os.ReadFile(ready)
		if j.pid = strings.TrimSpace(string(text)); j.pid != "" {
			return j, nil
		}
		if time.Now().After(end) {
			j.end()
			return nil, fmt.Errorf("%s does not get ready", script)
		}
	}
}

func (j *job) end() {
	if pid, err := strconv.Atoi(j.pid); err == nil {
		if p, err := os.FindProcess(pid); err == nil {
			_ = p.Kill()
		}
	} else {
		_ = j.cmd.Process.Kill()
	}
	_ = j.cmd.Wait()
}

// rival times the same command of Probing on a training of its own, if it is installed.
func (b *bench) rival(command, arg string) string {
	if b.probing == "" {
		return "rival not installed"
	}
	ready := filepath.Join(b.dir, "rival.ready")
	_ = os.Remove(ready)
	cmd := exec.Command(filepath.Join(filepath.Dir(b.probing), "python"),
		filepath.Join(b.repo, "test", "bench", "idle.py"), ready)
	cmd.Env = append(os.Environ(), "PROBING=1")
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if text, _ := os.ReadFile(ready); len(text) > 0 {
			break
		}
	}
	var ms []float64
	for range 15 {
		x, err := timed(b.probing, "-t", strconv.Itoa(cmd.Process.Pid), command, arg)
		if err != nil && command == "eval" {
			return "Probing: " + strings.SplitN(err.Error(), "\n", 2)[0]
		}
		if x > 0 {
			ms = append(ms, x)
		}
	}
	if len(ms) == 0 {
		return "Probing: no answer"
	}
	return fmt.Sprintf("Probing 0.2.4: %.1f ms", median(ms))
}

// startOf times processes that do nothing, and the rival's.
func (b *bench) startOf() string {
	names, commands := []string{"`true`", "Probing 0.2.4"}, [][]string{{"true"}, {b.probing, "--version"}}
	var parts []string
	for i, c := range commands {
		var ms []float64
		for range 31 {
			if x, err := timed(c[0], c[1:]...); err == nil {
				ms = append(ms, x)
			}
		}
		if len(ms) > 0 {
			parts = append(parts, fmt.Sprintf("%s %.1f ms", names[i], median(ms)))
		}
	}
	return strings.Join(parts, ", ")
}

// atRest watches two collectors while their processes make 100 steps a second each: in the first seconds, when all is
// done more often, and then. One session is as users have it, in the other every step is traced.
func (b *bench) atRest() error {
	const young, old, seconds = 20, 60, 30
	traces := []string{"auto", "all"}
	var begins []time.Time
	var pids []int
	for _, trace := range traces {
		begins = append(begins, time.Now())
		j, err := b.job("rest-"+trace, trace, filepath.Join(b.repo, "test", "bench", "steps.py"), "100")
		if err != nil {
			return err
		}
		defer j.end()
		pid, err := collectorOf(j.session)
		if err != nil {
			return err
		}
		pids = append(pids, pid)
	}
	ticks := func(age int) (list []int) {
		for i, pid := range pids {
			time.Sleep(time.Duration(age)*time.Second - time.Since(begins[i]))
			list = append(list, cpuTicks(pid))
		}
		return list
	}
	first, before, after := ticks(young), ticks(old), ticks(old+seconds)
	for i, trace := range traces {
		share := func(ticks, seconds int) string {
			// USER_HZ is 100 on Linux: a tick is 1 % of a second
			return fmt.Sprintf("%.2f %%", float64(ticks)/float64(seconds))
		}
		what := fmt.Sprintf("collector at rest, 100 steps/s, `--trace %s`", trace)
		b.add(what, "≤ 0.7 % of a core, ≤ 90 MiB", share(after[i]-before[i], seconds)+", "+memoryOf(pids[i]), "")
		b.add(what+", its first 20 s, its start included", "≤ 2 % of a core", share(first[i], young), "")
	}
	return nil
}

// outputOf runs a measurement that prints its own table rows: what TAB goal TAB measured TAB beside.
func (b *bench) outputOf(cmd *exec.Cmd) error {
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s: %w", cmd, err)
	}
	for _, line := range strings.Split(string(out), "\n") {
		if f := strings.Split(line, "\t"); len(f) == 4 {
			b.add(f[0], f[1], f[2], f[3])
		}
	}
	return nil
}

func (b *bench) ringWrite() error {
	cmd := exec.Command(b.python, filepath.Join(b.repo, "test", "bench", "ring_write.py"), "--row")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(b.repo, "python"))
	return b.outputOf(cmd)
}

func (b *bench) samplers() error {
	cmd := exec.Command("go", "run", "./test/bench/samplers", "-python", b.python)
	cmd.Dir = b.repo
	return b.outputOf(cmd)
}

func (b *bench) trainer() error {
	cmd := exec.Command(b.python, filepath.Join(b.repo, "test", "bench", "trainer_cost.py"), "--row")
	cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(b.repo, "python"))
	return b.outputOf(cmd)
}
