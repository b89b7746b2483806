// Command guard counts how many trainings that are bound to run out of memory a guard stops with a checkpoint before
// the kernel kills them, and how many healthy ones it stops: go run ./test/guard prints the table of docs/guard.md.
// Each runs in a memory cgroup of its own (v1, as root).
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

const mib = 1 << 20

// shapes of trainings: those that die, and those that don't.
var (
	bound   = []string{"leak", "noisy", "leaps"}
	healthy = []string{"teeth", "warm", "peaks"}
)

type options struct {
	memgauge, python string
	runs, at         int
	guarded          bool
	only             string
}

// outcome of one training.
type outcome struct {
	shape          string
	stopped, saved bool
	killed         bool
	code           int
}

func main() {
	o := options{}
	flag.StringVar(&o.memgauge, "memgauge", "bin/memgauge", "the binary")
	flag.StringVar(&o.python, "python", "python3", "the interpreter")
	flag.IntVar(&o.runs, "runs", 20, "trainings of each kind")
	flag.IntVar(&o.at, "at-once", 2, "trainings at a time")
	flag.StringVar(&o.only, "only", "", "bound or healthy")
	flag.BoolVar(&o.guarded, "guard", true, "false shows that the bound ones do die")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "guard:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	dir, err := os.MkdirTemp("", "memgauge-guard-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Println("| trainings | runs | stopped with a checkpoint | killed | finished |\n|---|---|---|---|---|")
	for _, kind := range []kind{{"bound to run out of memory", bound}, {"healthy", healthy}} {
		if o.only != "" && !strings.HasPrefix(kind.name, o.only) {
			continue
		}
		if err := kind.row(o, dir); err != nil {
			return err
		}
	}
	return nil
}

// kind of trainings: a row of the table.
type kind struct {
	name   string
	shapes []string
}

// row runs the trainings of a kind, and prints how they ended. What ended otherwise than it should is named.
func (k kind) row(o options, dir string) error {
	outcomes := make([]outcome, o.runs)
	var g errgroup.Group
	g.SetLimit(max(1, o.at))
	for i := range outcomes {
		g.Go(func() (err error) {
			outcomes[i], err = train(o, dir, k.shapes[i%len(k.shapes)], i)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var stopped, killed, finished int
	for i, one := range outcomes {
		switch {
		case one.stopped && one.saved:
			stopped++
		case one.killed:
			killed++
		case one.code == 0:
			finished++
		}
		if one.finished() != (k.name == "healthy") || one.killed || one.stopped && !one.saved {
			fmt.Fprintf(os.Stderr, "%s %d: exit %d, checkpoint %t\n", one.shape, i, one.code, one.saved)
		}
	}
	fmt.Printf("| %s | %d | %d | %d | %d |\n", k.name, o.runs, stopped, killed, finished)
	return nil
}

func (o outcome) finished() bool { return o.code == 0 }

// train runs one in a cgroup of 420 to 820 MiB, of which the interpreter takes 15.
func train(o options, dir, shape string, seed int) (outcome, error) {
	room := 400 + seed%5*100
	group := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("memgauge-guard-%d-%s-%d", os.Getpid(), shape, seed))
	if err := os.Mkdir(group, 0o755); err != nil {
		return outcome{}, err
	}
	defer remove(group)
	limit := strconv.Itoa((room + 20) * mib)
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), []byte(limit), 0o644); err != nil {
		return outcome{}, err
	}
	checkpoint := filepath.Join(dir, fmt.Sprintf("%s-%d", shape, seed))
	args := []string{"run", "--quiet", "--session", checkpoint + ".session"}
	if o.guarded {
		args = append(args, "--guard", "guide")
	}
	args = append(args, "--", "sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, o.python,
		"test/guard/training.py", shape, strconv.Itoa(room), strconv.Itoa(seed), checkpoint)
	cmd := exec.Command(o.memgauge, args...)
	cmd.Env = append(os.Environ(), "MEMGAUGE_HOME="+filepath.Join(dir, "home"))
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return outcome{}, err
	}
	_, unsaved := os.Stat(checkpoint)
	code := cmd.ProcessState.ExitCode()
	return outcome{shape: shape, stopped: code == 75, saved: unsaved == nil, killed: code == 137, code: code}, nil
}

// remove waits until the kernel has let go of the group's last process.
func remove(group string) {
	for end := time.Now().Add(10 * time.Second); os.Remove(group) != nil && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
}
