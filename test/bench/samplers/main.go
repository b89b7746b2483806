// Command samplers measures what watching a job from outside costs: a whole collector in this process, on a real tree
// of 20 Python processes with torch loaded and a mocked machine of 8 GPUs. It prints rows for test/bench: what TAB goal
// TAB measured TAB beside it.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	lib "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxa100"

	"github.com/memgauge/memgauge/internal/door/collector"
	"github.com/memgauge/memgauge/internal/probe/gpu"
	"github.com/memgauge/memgauge/internal/probe/gpu/nvml"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

const job = `
import os, sys, time
try:
    import torch
except ImportError:
    pass
kept = bytearray(os.urandom(1 << 20)) * 64
for i in range(19):
    if not os.fork():
        time.sleep(300)
open(sys.argv[1], "w").write("ready")
time.sleep(300)
`

func main() {
	python := flag.String("python", "python3", "a Python, with torch if there is one")
	seconds := flag.Int("seconds", 60, "how long to measure at each interval")
	flag.Parse()
	if err := run(*python, time.Duration(*seconds)*time.Second); err != nil {
		fmt.Fprintln(os.Stderr, "samplers:", err)
		os.Exit(1)
	}
}

func run(python string, span time.Duration) error {
	dir, err := os.MkdirTemp("", "memgauge-samplers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ready := filepath.Join(dir, "ready")
	cmd := exec.Command(python, "-c", job, ready)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // the group of 20
		_ = cmd.Wait()
	}()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(ready); err == nil {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the job does not get ready")
		}
	}
	for _, at := range []struct {
		interval time.Duration
		goal     string
	}{{time.Second, "≤ 0.5 % of a core, ≤ 150 MiB"}, {100 * time.Millisecond, "≤ 3 % of a core"}} {
		if err := measure(filepath.Join(dir, at.interval.String()), cmd.Process.Pid, at.interval, span,
			at.goal); err != nil {
			return err
		}
	}
	return nil
}

// settle is left out: at first every process is described, and the session is judged, which stores what was sampled,
// every few seconds.
const settle = time.Minute

// measure runs a collector on the job for a while.
func measure(dir string, pid int, interval, span time.Duration, goal string) error {
	s, err := session.Create(session.Options{Dir: dir, Command: []string{"bench"}, Version: "bench", MaxDisk: 1 << 30,
		Interval: interval})
	if err != nil {
		return err
	}
	start, err := proc.New("/proc").StartTicks(pid)
	if err != nil {
		return err
	}
	s.Meta.Started = time.Now().Add(-time.Hour) // not young any more
	if err := s.SetProcess(session.Pid{PID: pid, Start: start}); err != nil {
		return err
	}
	c := collector.New(s, slog.New(slog.NewTextHandler(io.Discard, nil)))
	var set *gpu.Set
	c.OpenGPUs = func(*slog.Logger, func() []int) sampler.GPUs {
		b, err := nvml.OpenWith(machine())
		if err != nil {
			return nil
		}
		set = gpu.New(b)
		return set
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	time.Sleep(settle)
	before := cpu()
	time.Sleep(span)
	used, rss := cpu()-before, resident()
	cancel()
	if err := <-done; err != nil {
		return err
	}
	gpus := 0
	if set != nil {
		gpus = set.Len()
	}
	share, parts, err := costs(s)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "every %s: %s\n", interval, parts)
	fmt.Printf("samplers every %s: 20 processes, %d mocked GPUs\t%s\t%.2f %%, %d MiB\tthe whole collector, judging included: %.2f %%\n", interval, gpus, goal,
		100*share, rss>>20, 100*float64(used)/float64(span))
	debug.FreeOSMemory() // the next one shall not be charged for this one's garbage
	return nil
}

// costs asks the session what its samplers have cost, storing included, in the last rows of each part.
func costs(s *session.Session) (share float64, parts string, err error) {
	db, err := store.Open(context.Background(), store.Options{Path: s.Database()})
	if err != nil {
		return 0, "", err
	}
	defer db.Close()
	rows, err := db.Query(context.Background(), `SELECT part, sum(ns) / sum(covered_ns) FROM memgauge.overhead
		WHERE part LIKE 'sampler%' AND ts > (SELECT min(ts) + INTERVAL 45 SECOND FROM memgauge.overhead) GROUP BY part ORDER BY 2 DESC`)
	if err != nil {
		return 0, "", err
	}
	defer rows.Close()
	for rows.Next() {
		v := rows.Values()
		part, _ := v[1].(float64)
		share += part
		parts += fmt.Sprintf("%s %.3f %%  ", strings.TrimPrefix(v[0].(string), "sampler: "), 100*part)
	}
	return share, parts, rows.Err()
}

// cpu is the CPU time of this process.
func cpu() time.Duration {
	var ru syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}

func resident() int64 {
	m, err := proc.New("/proc").RSS(os.Getpid())
	if err != nil {
		return 0
	}
	return int64(m.Resident)
}

// machine is go-nvml's DGX A100 with all figures that are sampled.
func machine() lib.Interface {
	s := dgxa100.New()
	s.EventSetCreateFunc = func() (lib.EventSet, lib.Return) { return &mock.EventSet{}, lib.ERROR_NOT_SUPPORTED }
	for i := range s.Devices {
		d := s.Devices[i].(*dgxa100.Device)
		d.Name = strings.TrimPrefix(d.Name, "Mock ")
		d.GetMemoryInfo_v2Func = func() (lib.Memory_v2, lib.Return) {
			return lib.Memory_v2{Total: 40 << 30, Used: 10 << 30, Free: 30 << 30}, lib.SUCCESS
		}
		d.GetUtilizationRatesFunc = func() (lib.Utilization, lib.Return) {
			return lib.Utilization{Gpu: 97},
				lib.SUCCESS
		}
		d.GetTemperatureFunc = func(lib.TemperatureSensors) (uint32, lib.Return) { return 61, lib.SUCCESS }
		d.GetPowerUsageFunc = func() (uint32, lib.Return) { return 398_000, lib.SUCCESS }
		d.GetEnforcedPowerLimitFunc = func() (uint32, lib.Return) { return 400_000, lib.SUCCESS }
		d.GetClockInfoFunc = func(lib.ClockType) (uint32, lib.Return) { return 1410, lib.SUCCESS }
		d.GetCurrPcieLinkGenerationFunc = func() (int, lib.Return) { return 4, lib.SUCCESS }
		d.GetCurrPcieLinkWidthFunc = func() (int, lib.Return) { return 16, lib.SUCCESS }
		d.GetTotalEccErrorsFunc = func(lib.MemoryErrorType, lib.EccCounterType) (uint64, lib.Return) {
			return 0,
				lib.SUCCESS
		}
		d.GetCurrentClocksEventReasonsFunc = func() (uint64, lib.Return) { return 4, lib.SUCCESS }
		d.GetComputeRunningProcessesFunc = func() ([]lib.ProcessInfo, lib.Return) {
			return []lib.ProcessInfo{{Pid: uint32(1000 + i), UsedGpuMemory: 8 << 30}}, lib.SUCCESS
		}
		d.GetGraphicsRunningProcessesFunc = func() ([]lib.ProcessInfo, lib.Return) {
			return nil,
				lib.ERROR_NOT_SUPPORTED
		}
	}
	return s
}
