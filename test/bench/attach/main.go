// Command attach measures how long a training stands still when it is entered, and how long entering takes: p50, p99
// and the most of many attaches of one PyTorch process. It judges nothing: the machine may be shared.
//
//	go run ./test/bench/attach -python .venv/bin/python -n 1000
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/probe/attach"
)

// training is a small one, in 1 ms steps; -torch=false takes its place with plain Python.
const training = `
import torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
x = torch.randn(64, 256)
print('ready', flush=True)
while True:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
`

// states are what a main thread may be doing.
var states = []struct{ name, source string }{
	{"training with torch", training},
	{"computing in Python", "print('ready', flush=True)\nx = 0\nwhile True: x += 1"},
	{"time.sleep", "import time\nprint('ready', flush=True)\nwhile True: time.sleep(1000)"},
	{"Event.wait", "import threading\nprint('ready', flush=True)\nthreading.Event().wait()"},
	{"read", "import sys\nprint('ready', flush=True)\nsys.stdin.read()"},
}

func main() {
	python := flag.String("python", "python3", "the Python to enter, with torch for the first row")
	memgauge := flag.String("memgauge", "", "the program, to measure `memgauge attach` and `detach` as well")
	n := flag.Int("n", 1000, "attaches of each process")
	flag.Parse()
	fmt.Printf("%-22s %7s   %-32s %-32s\n", "main thread", "n", "stopped p50 / p99 / max",
		"source in, run and out p50 / p99 / max")
	for _, s := range states {
		if err := measure(*python, *memgauge, s.name, s.source, *n); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", s.name, err)
		}
	}
}

func measure(python, memgauge, name, source string, n int) error {
	target := exec.Command(python, "-c", source)
	target.Stderr = os.Stderr
	in, err := target.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := target.StdoutPipe()
	if err != nil {
		return err
	}
	if err := target.Start(); err != nil {
		return err
	}
	defer target.Wait()
	defer target.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		return fmt.Errorf("it says %q: %v", line, err)
	}
	var stopped, took []time.Duration
	for range n {
		start := time.Now()
		r, err := attach.Inject(context.Background(), target.Process.Pid, "result = 'in'",
			attach.Options{Timeout: time.Minute})
		if err != nil || r.Value != "in" {
			return fmt.Errorf("inject: %+v %v", r, err)
		}
		stopped, took = append(stopped, r.Stopped), append(took, time.Since(start))
	}
	fmt.Printf("%-22s %7d   %-32s %-32s\n", name, n, figures(stopped), figures(took))
	if memgauge == "" {
		return nil
	}
	return command(memgauge, name, target.Process.Pid, max(1, n/20))
}

// command measures the command line from start to exit, in a home of its own.
func command(memgauge, name string, pid, n int) error {
	home, err := os.MkdirTemp("", "memgauge-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	times := map[string][]time.Duration{}
	for range n {
		for _, verb := range []string{"attach", "detach"} {
			cmd := exec.Command(memgauge, verb, fmt.Sprint(pid))
			cmd.Env = append(os.Environ(), "MEMGAUGE_HOME="+home)
			var said strings.Builder
			cmd.Stdout, cmd.Stderr = io.Discard, &said
			start := time.Now()
			if err := cmd.Run(); err != nil {
				return fmt.Errorf("memgauge %s: %w: %s", verb, err, said.String())
			}
			times[verb] = append(times[verb], time.Since(start))
		}
	}
	for _, verb := range []string{"attach", "detach"} {
		fmt.Printf("  memgauge %-11s %7d   %-32s %-32s\n", verb, n, "", figures(times[verb]))
	}
	return nil
}

func figures(d []time.Duration) string {
	slices.Sort(d)
	at := func(share float64) time.Duration { return d[int(share*float64(len(d)-1))] }
	return fmt.Sprintf("%s / %s / %s", short(at(0.5)), short(at(0.99)), short(d[len(d)-1]))
}

func short(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%d µs", d.Microseconds())
	}
	return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000)
}
