package estimate

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// recorder are the programs that run a script; recorder.py is the first.
//
//go:embed py/*.py
var recorder embed.FS

// Run is a run of a script under observation.
type Run struct {
	Python     string   // the interpreter
	Argv       []string // script and arguments, or -m, module and arguments
	Steps      int
	Factor     float64 // of the script's own batch size
	Shapes     bool    // without arithmetic on large tensors
	Once       bool    // at its own batch size only
	Mixed      bool    // under autocast
	Capability [2]int  // of the GPU that the script sees

	Writes  bool  // what the script writes is written
	Network bool  // it reaches what it always does
	Fence   Fence // what keeps it from either; set by Enclose
}

// stopping is how long a script may take to end after it was told to; then it is killed.
const stopping = 5 * time.Second

// tail is how much of a script's output is kept, for the message of a failure.
const tail = 4 << 10

// Record runs the script and reads what it would take. The script and its children end with the context.
func Record(ctx context.Context, r Run) (*Recording, error) {
	dir, err := scratch()
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer func() { _ = dir.Discard() }()
	program, out := filepath.Join(dir.Path(), "py", "recorder.py"), filepath.Join(dir.Path(), "events")
	told := map[string]any{"steps": r.Steps, "factor": r.Factor, "shapes": r.Shapes, "mixed": r.Mixed,
		"capability": r.Capability, "fence": r.Fence.told(dir.Path())}
	tmp := ""
	if r.Fence.Files != FilesReal {
		tmp = filepath.Join(dir.Path(), "tmp")
		if err := dir.Mkdir("tmp"); err != nil {
			return nil, fmt.Errorf("record: %w", err)
		}
	}
	settings, err := json.Marshal(told)
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	if err := run(ctx, r, tmp, append([]string{program, out, string(settings)}, r.Argv...)); err != nil {
		return nil, err
	}
	file, err := dir.Open("events")
	if err != nil {
		return nil, fmt.Errorf("record: %w", err)
	}
	defer file.Close()
	return Read(file)
}

// run runs Python in a process group of its own, so that workers of the script end with it. tmp is where it has its
// temporary files; "": where they always are.
func run(ctx context.Context, r Run, tmp string, args []string) error {
	last := &lastBytes{}
	c := exec.CommandContext(ctx, r.Python, args...)
	c.Stdout, c.Stderr = last, last
	runtime.LockOSThread() // Pdeathsig goes by the thread that started the process
	defer runtime.UnlockOSThread()
	c.SysProcAttr = r.Fence.attributes() // it ends also where we are killed
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGTERM) }
	c.WaitDelay = stopping
	c.Env = append(append(os.Environ(), "MEMGAUGE_DISABLE=1", "CUDA_VISIBLE_DEVICES=", "PYTHONDONTWRITEBYTECODE=1",
		"PYTHONUNBUFFERED=1"), r.Fence.environment()...)
	if tmp != "" {
		c.Env = append(c.Env, "TMPDIR="+tmp)
	}
	err := c.Run()
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // what it left; ESRCH: nothing
	}
	if ctx.Err() != nil {
		return fmt.Errorf("record: %w", context.Cause(ctx))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return r.failure(last.String(), exit)
	}
	if err != nil {
		return fmt.Errorf("record: %w", err)
	}
	return nil
}

// failure is what a script's failure means.
func (r *Run) failure(output string, exit *exec.ExitError) error {
	err := fmt.Errorf("the script failed (%s):\n%s", exit.ProcessState, indented(output))
	switch status, _ := exit.Sys().(syscall.WaitStatus); {
	case strings.Contains(output, "No module named 'torch'"):
		return remedy.Add(errors.New("this Python has no PyTorch"),
			"name the training's interpreter: memgauge estimate -- .venv/bin/python train.py")
	case strings.Contains(output, "not enough memory"), strings.Contains(output, "MemoryError"),
		status.Signaled() && status.Signal() == syscall.SIGKILL:
		return remedy.Add(err, "the host's memory did not suffice; --shapes takes none for large tensors, "+
			"a smaller batch size less")
	}
	if r.Fence.Network != NetworkReal && refused(output, noNetwork) {
		return remedy.Add(err, "it has no network here; --network gives it one")
	}
	if r.Fence.Files != FilesReal && refused(output, noWrites) {
		return remedy.Add(err, "it may not write there; --writes lets it, for real")
	}
	return remedy.Add(err, "the script is run on the host, with a GPU pretended; see that it runs with its arguments")
}

// What Python and its libraries say where there is no network, and where files can't be written.
var (
	noNetwork = []string{"Network is unreachable", "Name or service not known", "name resolution",
		"NameResolutionError", "nodename nor servname", "OfflineModeIsEnabled", "LocalEntryNotFoundError",
		"ConnectionError", "URLError", "outgoing traffic has been disabled", "Connection refused"}
	noWrites = []string{"Permission denied", "PermissionError", "Read-only file system", "Errno 13", "Errno 30"}
)

func refused(output string, words []string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(output, w) })
}

func indented(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct{ data []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.data = append(l.data, p...)
	if len(l.data) > tail {
		l.data = append(l.data[:0], l.data[len(l.data)-tail:]...)
	}
	return len(p), nil
}

func (l *lastBytes) String() string { return string(l.data) }
