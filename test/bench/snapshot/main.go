// Command snapshot measures the reading of a large PyTorch memory snapshot: memgauge's page beside Python's pickle.load
// of the same file, in pairs, in the same run.
//
//	go run ./test/bench/snapshot -memgauge bin/memgauge -python python3 -megabytes 1300
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

func main() {
	memgauge := flag.String("memgauge", "bin/memgauge", "the binary")
	python := flag.String("python", "python3", "an interpreter; it needs four times the file's size of memory")
	megabytes := flag.Float64("megabytes", 1300, "size of the file")
	large := flag.Float64("large", 0, "size of a second file, which only memgauge reads: its cost is to be linear")
	existing := flag.String("file", "", "measure this file instead of one that is made")
	largeFile := flag.String("large-file", "", "the second file, instead of one that is made")
	pairs := flag.Int("pairs", 3, "how often each is run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	b := bench{*memgauge, *python, *pairs, wanted{*existing, *megabytes}, wanted{*largeFile, *large}}
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "snapshot:", err)
		os.Exit(1)
	}
}

// bench is what is to be measured.
type bench struct {
	memgauge, python string
	pairs            int
	small, large     wanted
}

// wanted is a file: one that is there, or else one to be made, of a size in MB; without either there is none.
type wanted struct {
	path      string
	megabytes float64
}

// get returns its path, and its size in MB.
func (w wanted) get(ctx context.Context, python, dir string) (string, float64, error) {
	if w.path == "" {
		w.path = filepath.Join(dir, "made.pickle")
		script := filepath.Join("test", "bench", "snapshots.py")
		out, err := exec.CommandContext(ctx, python, script, "--megabytes", fmt.Sprint(w.megabytes),
			w.path).CombinedOutput()
		if err != nil {
			return "", 0, fmt.Errorf("%w: %s", err, out)
		}
	}
	info, err := os.Stat(w.path)
	if err != nil {
		return "", 0, err
	}
	return w.path, float64(info.Size()) / 1e6, nil
}

func (b *bench) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "snapshot-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file, megabytes, err := b.small.get(ctx, b.python, dir)
	if err != nil {
		return err
	}
	var ours, theirs []cost
	for range b.pairs {
		o, err := measure(ctx, b.memgauge, "snapshot", file)
		if err != nil {
			return err
		}
		t, err := measure(ctx, b.python, "-c",
			"import gc, pickle, sys; gc.disable(); pickle.load(open(sys.argv[1], 'rb'))", file)
		if err != nil {
			return err
		}
		ours, theirs = append(ours, o), append(theirs, t)
	}
	sql, err := asked(ctx, b.memgauge, dir, file, b.pairs)
	if err != nil {
		return err
	}
	page := printed(megabytes, median(ours), median(theirs), sql)
	if b.large == (wanted{}) {
		return nil
	}
	file, times, err := b.large.get(ctx, b.python, dir)
	if err != nil {
		return err
	}
	return linear(ctx, b.memgauge, file, times/megabytes, page, b.pairs)
}

// printed prints the table and returns what the page took.
func printed(megabytes float64, a, b cost, sql []named) cost {
	fmt.Printf("| %.0f MB | time | processor time | memory |\n|---|---|---|---|\n", megabytes)
	fmt.Printf("| memgauge snapshot, the page | %.2f s | %.2f s | %.0f MB |\n", a.wall.Seconds(), a.cpu.Seconds(),
		a.rss)
	fmt.Printf("| pickle.load | %.2f s | %.2f s | %.0f MB |\n", b.wall.Seconds(), b.cpu.Seconds(), b.rss)
	for _, row := range sql {
		fmt.Printf("| %s | %.2f s | %.2f s | %.0f MB |\n", row.what, row.wall.Seconds(), row.cpu.Seconds(), row.rss)
	}
	fmt.Printf("| ratio of the page | %.1f | %.1f | %.1f |\n", b.wall.Seconds()/a.wall.Seconds(),
		b.cpu.Seconds()/a.cpu.Seconds(), b.rss/a.rss)
	return a
}

// linear measures the page of a file that is so many times as large as the one whose page took small.
func linear(ctx context.Context, memgauge, file string, times float64, small cost, pairs int) error {
	var costs []cost
	for range pairs {
		c, err := measure(ctx, memgauge, "snapshot", file)
		if err != nil {
			return err
		}
		costs = append(costs, c)
	}
	c := median(costs)
	fmt.Printf("| a file %.1f times as large, the page | %.2f s | %.2f s | %.0f MB |\n", times, c.wall.Seconds(),
		c.cpu.Seconds(), c.rss)
	fmt.Printf("| times the smaller one's | %.1f | %.1f | %.1f |\n", c.wall.Seconds()/small.wall.Seconds(),
		c.cpu.Seconds()/small.cpu.Seconds(), c.rss/small.rss)
	return nil
}

// named is what a command took.
type named struct {
	what string
	cost
}

// asked measures questions in SQL: the first, which makes the tables, and others.
func asked(ctx context.Context, memgauge, dir, file string, times int) (rows []named, err error) {
	home := filepath.Join(dir, "home")
	if err := os.Setenv("MEMGAUGE_HOME", home); err != nil {
		return nil, err
	}
	sum := "SELECT site, sum(requested) FROM blocks GROUP BY site ORDER BY 2 DESC LIMIT 10"
	peak := "SELECT category, sum(requested) FROM live_at((SELECT arg_max(seq, live_after) FROM events)) GROUP BY category"
	for _, c := range []struct {
		what  string
		fresh bool
		args  []string
	}{
		{"memgauge snapshot query, the first: `SELECT 1`", true, []string{"query", file, "SELECT 1"}},
		{"`SELECT 1`, from the cache", false, []string{"query", file, "SELECT 1"}},
		{"bytes by site, all blocks, from the cache", false, []string{"query", file, sum}},
		{"live_at the peak by category, from the cache", false, []string{"query", file, peak}},
		{"memgauge snapshot flame --at peak, from the cache", false,
			[]string{"flame", file, "-o", filepath.Join(dir, "peak.svg")}},
	} {
		var costs []cost
		for range times {
			if c.fresh {
				if err := os.RemoveAll(home); err != nil {
					return nil, err
				}
			}
			one, err := measure(ctx, memgauge, append([]string{"snapshot"}, c.args...)...)
			if err != nil {
				return nil, err
			}
			costs = append(costs, one)
		}
		rows = append(rows, named{c.what, median(costs)})
	}
	return rows, nil
}

// cost is what a command took; rss in MB at its highest.
type cost struct {
	wall, cpu time.Duration
	rss       float64
}

func measure(ctx context.Context, name string, args ...string) (cost, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stderr = os.Stderr
	began := time.Now()
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) { // a finding is no failure
		return cost{}, fmt.Errorf("%s: %w", name, err)
	}
	usage := c.ProcessState.SysUsage().(*syscall.Rusage)
	return cost{time.Since(began), c.ProcessState.UserTime() + c.ProcessState.SystemTime(),
		float64(usage.Maxrss) / 1e3}, nil
}

// median takes each figure's own.
func median(costs []cost) (m cost) {
	by := func(key func(c cost) float64) float64 {
		var xs []float64
		for _, c := range costs {
			xs = append(xs, key(c))
		}
		slices.Sort(xs)
		return xs[len(xs)/2]
	}
	m.wall = time.Duration(by(func(c cost) float64 { return float64(c.wall) }))
	m.cpu = time.Duration(by(func(c cost) float64 { return float64(c.cpu) }))
	m.rss = by(func(c cost) float64 { return c.rss })
	return m
}
