// Command estimate prints how far `memgauge estimate` is from what GPUs recorded: docs/estimate.md's table.
//
//	go run ./test/estimate [-only NAME]
//
// It needs bin/memgauge and the Pythons of scripts/testenv. Rows whose Python is missing are left out, and named.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// model is a training whose memory a GPU recorded.
type model struct {
	name       string
	frameworks bool     // needs transformers
	args       []string // of memgauge estimate, before the script
	script     []string
	requested  int64 // bytes in use at the peak, 0 where the source doesn't say
	reserved   int64 // … reserved by PyTorch's allocator
	source     string
}

const (
	h100   = "testdata/snapshots, recorded on an H100"
	course = "public snapshot, the model after the course's text"
	guide  = "Hugging Face's documentation, V100, without the 1,343 MiB before the model"
	mib    = 1 << 20
)

var models = []model{
	{"transformer, lengths that change", false, []string{"--steps", "12", "--device-memory", "H100"},
		[]string{"lengths.py"}, 3231897932, 4622123008, h100},
	{"the same, expandable segments", false,
		[]string{"--steps", "12", "--device-memory", "H100", "--conf", "expandable_segments:True"},
		[]string{"lengths.py"}, 3231897932, 3613392896, h100},
	{"decoder of 3.4 billion, context 128", false, []string{"--steps", "1", "--device-memory", "H100"},
		[]string{"language.py", "128"}, 54802667524, 61111009280, course},
	{"decoder of 3.4 billion, context 512", false, []string{"--steps", "1", "--device-memory", "H100"},
		[]string{"language.py", "512"}, 54868051972, 62830673920, course},
	{"BERT-large, batch 4", true, []string{"--device-memory", "V100"},
		[]string{"bert.py", "{batch:4}", "1"}, 0, (14949 - 1343) * mib, guide},
	{"BERT-large, batch 1, 4 accumulated", true, []string{"--device-memory", "V100"},
		[]string{"bert.py", "{batch:1}", "4"}, 0, (8681 - 1343) * mib, guide},
	{"… with checkpointing", true, []string{"--device-memory", "V100"},
		[]string{"bert.py", "{batch:1}", "4", "--checkpoint"}, 0, (6775 - 1343) * mib, guide},
}

func main() {
	only := flag.String("only", "", "only rows whose name contains this")
	flag.Parse()
	if err := table(*only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func table(only string) error {
	fmt.Println("| training | recorded | estimated | error | in use at the peak: recorded | estimated | error |")
	fmt.Println("|---|---|---|---|---|---|---|")
	var errs []float64
	for _, m := range models {
		if !strings.Contains(m.name, only) {
			continue
		}
		python, err := pythonOf(m)
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: left out: %v\n", m.name, err)
			continue
		}
		reserved, requested, err := estimated(python, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		off := float64(reserved)/float64(m.reserved) - 1
		errs = append(errs, math.Abs(off))
		fmt.Printf("| %s | %s | %s | %+.1f %% | %s |\n", m.name, gib(m.reserved), gib(reserved), 100*off,
			used(m.requested, requested))
	}
	if len(errs) == 0 {
		return errors.New("no row")
	}
	slices.Sort(errs)
	fmt.Printf("\nError at the median %.1f %%, at most %.1f %%, of %d.\n", 100*errs[len(errs)/2], 100*errs[len(errs)-1],
		len(errs))
	return nil
}

func used(recorded, estimated int64) string {
	if recorded == 0 {
		return "not told | " + gib(estimated) + " |"
	}
	return fmt.Sprintf("%s | %s | %+.1f %%", gib(recorded), gib(estimated),
		100*(float64(estimated)/float64(recorded)-1))
}

func gib(n int64) string { return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30)) }

// pythonOf finds an interpreter of scripts/testenv.
func pythonOf(m model) (string, error) {
	cache := os.Getenv("MEMGAUGE_TEST_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(home, ".cache", "memgauge-test")
	}
	name := "torch"
	if m.frameworks {
		name = "frameworks"
	}
	path := filepath.Join(cache, name, "bin", "python")
	_, err := os.Stat(path)
	return path, err
}

func estimated(python string, m model) (reserved, requested int64, err error) {
	args := append([]string{"estimate", "--json", "--shapes", "--once", "--precision", "as-is"}, m.args...)
	args = append(args, "--", python, filepath.Join("test/estimate/programs", m.script[0]))
	args = append(args, m.script[1:]...)
	c := exec.Command("bin/memgauge", args...)
	c.Stderr = os.Stderr
	out, err := c.Output()
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) { // 3: it does not fit
		return 0, 0, err
	}
	var answer struct {
		Estimates []struct {
			Allocator struct{ Bytes int64 } `json:"allocator"`
			Requested int64                 `json:"peak_requested_bytes"`
		} `json:"estimates"`
	}
	if err := json.Unmarshal(out, &answer); err != nil || len(answer.Estimates) == 0 {
		return 0, 0, fmt.Errorf("no estimate: %w", err)
	}
	return answer.Estimates[0].Allocator.Bytes, answer.Estimates[0].Requested, nil
}
