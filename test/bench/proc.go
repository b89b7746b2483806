package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// collectorOf finds the process that runs as the session's collector.
func collectorOf(session string) (int, error) {
	paths, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if args := strings.Split(string(text), "\x00"); len(args) > 3 && args[1] == "collector" && args[3] == session {
			return strconv.Atoi(filepath.Base(filepath.Dir(path)))
		}
	}
	return 0, fmt.Errorf("no collector of %s", session)
}

// cpuTicks is the CPU time of a process in clock ticks (proc(5), fields 14 and 15 of stat).
func cpuTicks(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(text), ") ")
	f := strings.Fields(after)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return user + system
}

// memoryOf is what a process has in memory, and how much of it is its own: the rest are pages of the program's file,
// which the kernel can give back at any time.
func memoryOf(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	mib := func(key string) int {
		_, after, _ := strings.Cut(string(text), key+":")
		f := strings.Fields(after)
		if len(f) == 0 {
			return 0
		}
		kib, _ := strconv.Atoi(f[0])
		return kib >> 10
	}
	return fmt.Sprintf("%d MiB (%d its own)", mib("VmRSS"), mib("RssAnon"))
}

// seedStatements reads the SQL out of the documents that the product must satisfy.
func seedStatements(repo string) []string {
	var list []string
	for _, doc := range []string{"probing-memory-analysis.en.md", "probing-memory-leak-example.zh-CN.md"} {
		text, _ := os.ReadFile(filepath.Join(repo, "testdata", "seeds", doc))
		for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			list = append(list, m[1])
		}
	}
	return list
}

var benchLine = regexp.MustCompile(`^(Benchmark\S+)\s+\d+\s+(.*)`)

// database runs the benchmarks of the packages between ring and SQL and takes their own units.
func (b *bench) database() error {
	cmd := exec.Command("go", "test", "-run", "^$", "-bench", "Drain|Seeds10M|BytesPerRow", "-benchtime", "1x",
		"-timeout", "20m", "./internal/record/store", "./test/bench/drain")
	cmd.Dir, cmd.Stderr = b.repo, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	goals := map[string][2]string{
		"rows/s":       {"draining a full backlog into the database", "≥ 2 M rows/s, one core"},
		"MiB-peak-RSS": {"memory of the process that answers them", "≤ 1 GiB"},
		"B/row":        {"bytes on disk a trace row", "≤ 30 B"},
	}
	var seeds []float64 // ms
	defer func() {
		if len(seeds) > 0 {
			b.add("the seeds' statements on 10 M rows, warm", "≤ 150 ms",
				fmt.Sprintf("%.0f ms the slowest", slices.Max(seeds)), fmt.Sprintf("%d statements, median %.0f ms",
					len(seeds), median(seeds)))
		}
	}()
	for _, line := range strings.Split(string(out), "\n") {
		m := benchLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		f := strings.Fields(m[2])
		for i := 0; i+1 < len(f); i += 2 {
			if f[i+1] == "ms" {
				if ms, err := strconv.ParseFloat(f[i], 64); err == nil {
					seeds = append(seeds, ms)
				}
			}
			if g, ok := goals[f[i+1]]; ok {
				b.add(g[0], g[1], f[i]+" "+f[i+1], strings.TrimPrefix(m[1], "Benchmark"))
			}
		}
	}
	return nil
}
