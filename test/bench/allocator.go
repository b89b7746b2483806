package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// allocatorGoals are the figures of `memgauge alloc bench` that have one, by what they measure.
var allocatorGoals = map[string]string{
	"alloc+free pair, 512 B to 64 MiB, 1,000 live": "≤ 150 ns",
	"the same with the event ring":                 "≤ 200 ns",
	"two threads on two streams, over one":         "≤ 1.2 times",
	"RMM's random_allocations 100,000/1":           "≤ 100 ms",
	"snapshot of 100,000 events":                   "≤ 50 ms",
}

// allocator measures package alloc in this program's own command, and through the C library; both in processor time.
func (b *bench) allocator() error {
	out, err := exec.Command(b.memgauge, "alloc", "bench", "--json", "--rounds", "9").Output()
	if err != nil {
		return fmt.Errorf("memgauge alloc bench: %w", err)
	}
	var report struct {
		Figures []struct {
			What, Unit   string
			Median, Best float64
		}
	}
	if err := json.Unmarshal(out, &report); err != nil {
		return fmt.Errorf("memgauge alloc bench: %w", err)
	}
	for _, f := range report.Figures {
		unit := strings.Replace(f.Unit, "ratio", "times", 1)
		b.add("allocator: "+f.What, allocatorGoals[f.What], fmt.Sprintf("%.3g %s", f.Median, unit),
			fmt.Sprintf("best round %.3g %s", f.Best, unit))
	}
	return b.throughC()
}

// throughC times the same load from a C program.
func (b *bench) throughC() error {
	lib := filepath.Join(filepath.Dir(b.memgauge), "libmemgauge_alloc.so")
	program := filepath.Join(b.dir, "use")
	cc := exec.Command("cc", "-O2", "-pthread", "-o", program, filepath.Join(b.repo, "test/alloclib/testdata/use.c"),
		"-I", filepath.Join(b.repo, "cmd/memgauge_alloc"), lib, "-Wl,-rpath,"+filepath.Dir(lib))
	cc.Stderr = os.Stderr
	if err := cc.Run(); err != nil {
		return fmt.Errorf("compile the C program: %w", err)
	}
	if err := b.timesOf("the same pair through the C library", "≤ 250 ns", program, "bench", "300000"); err != nil {
		return err
	}
	return b.torchRules()
}

// torchRules times the same load on PyTorch's rules in C++, with the containers that PyTorch uses: what to compare
// with.
func (b *bench) torchRules() error {
	program := filepath.Join(b.dir, "torchrules")
	cc := exec.Command("c++", "-O2", "-std=c++17", "-pthread", "-o", program,
		filepath.Join(b.repo, "test/bench/testdata/torchrules.cpp"))
	cc.Stderr = os.Stderr
	if err := cc.Run(); err != nil {
		return fmt.Errorf("compile the C++ program: %w", err)
	}
	return b.timesOf("the same pair by PyTorch's rules in C++", "", program, "300000")
}

// timesOf runs a program that prints a time in ns for each round.
func (b *bench) timesOf(what, goal, program string, args ...string) error {
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	var ns []float64
	for _, word := range strings.Fields(string(out)) {
		v, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return fmt.Errorf("run %s: %w", program, err)
		}
		ns = append(ns, v)
	}
	b.add("allocator: "+what, goal, fmt.Sprintf("%.0f ns", median(ns)), fmt.Sprintf("best round %.0f ns", least(ns)))
	return nil
}

func least(v []float64) float64 {
	low := v[0]
	for _, x := range v {
		low = min(low, x)
	}
	return low
}
