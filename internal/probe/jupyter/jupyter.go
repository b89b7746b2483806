// Package jupyter owns the question which process runs a notebook. It reads what Jupyter leaves: the command line of a
// kernel names its connection file, a server's runtime file says where it answers, and that server knows the notebook
// of each of its kernels; a kernel's environment has the name that the notebook had when it began. It asks servers of
// this user on loopback only, and changes nothing.
package jupyter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/probe/proc"
)

// Extension ends the name of a notebook.
const Extension = ".ipynb"

// sessionName is the variable in which Jupyter Server tells a kernel its notebook's path (jupyter_server/services/
// sessions/sessionmanager.py, get_kernel_env).
const sessionName = "JPY_SESSION_NAME"

const (
	maxListed  = 8        // kernels that a hint names
	maxServers = 16       // that are asked: one person seldom has two
	maxFile    = 64 << 10 // bytes of a server's runtime file, which has one kilobyte
)

// ErrNoKernel means that no process runs the notebook.
var ErrNoKernel = errors.New("no kernel runs it")

// Kernel is a process that runs the cells of a notebook.
type Kernel struct {
	PID      int
	Notebook string // its path, "" where nothing tells it
	id       string // between "kernel-" and ".json" in its connection file's name
	runtime  string // directory of that file
}

// Find is the kernel of a notebook: of its whole path, of the end of it, or of its name alone.
func Find(ctx context.Context, notebook string) (Kernel, error) {
	all, foreign, err := kernels(proc.New("/proc"))
	if err != nil {
		return Kernel{}, err
	}
	ask(ctx, all)
	return choose(all, foreign, notebook)
}

// Named is the notebook of one process by its environment; "" if it runs none.
func Named(pid int) string {
	fs := proc.New("/proc")
	if k, ok := kernel(fs, pid); ok {
		return k.Notebook
	}
	return ""
}

func choose(all []Kernel, foreign int, notebook string) (Kernel, error) {
	path, err := filepath.Abs(notebook)
	if err != nil {
		return Kernel{}, err
	}
	fits := func(same func(Kernel) bool) (found []Kernel) {
		for _, k := range all {
			if k.Notebook != "" && same(k) {
				found = append(found, k)
			}
		}
		return found
	}
	found := fits(func(k Kernel) bool { return k.Notebook == path })
	if len(found) == 0 {
		end := "/" + strings.TrimPrefix(filepath.Clean(notebook), "/")
		found = fits(func(k Kernel) bool { return strings.HasSuffix("/"+k.Notebook, end) })
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		hint := "kernels that run: " + listed(all)
		if len(all) == 0 {
			hint = "run a cell of it first; memgauge attach PID takes any kernel's PID, which os.getpid() tells in it"
		}
		if foreign > 0 {
			hint += fmt.Sprintf("; %d of other users can't be seen into", foreign)
		}
		return Kernel{}, remedy.Add(fmt.Errorf("notebook %s: %w", notebook, ErrNoKernel), hint)
	default:
		return Kernel{}, remedy.Add(fmt.Errorf("notebook %s: %d kernels run one of that name", notebook, len(found)),
			"say more of its path, or which PID: "+listed(found))
	}
}

func listed(all []Kernel) string {
	var parts []string
	for _, k := range all[:min(len(all), maxListed)] {
		name := k.Notebook
		if name == "" {
			name = "of a notebook that nothing names"
		}
		parts = append(parts, fmt.Sprintf("%d %s", k.PID, name))
	}
	if more := len(all) - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(parts, ", ")
}

// kernels are this user's (root's are all). A fork of a kernel, such as a DataLoader's worker, has its command line
// too: it is left out. foreign counts other users' kernels.
func kernels(fs proc.FS) (all []Kernel, foreign int, err error) {
	pids, err := fs.PIDs()
	if err != nil {
		return nil, 0, fmt.Errorf("look for kernels: %w", err)
	}
	ids := map[int]string{}
	for _, pid := range pids {
		k, ok := kernel(fs, pid)
		if !ok {
			continue
		}
		ids[pid] = k.id
		if info, err := os.Stat("/proc/" + strconv.Itoa(pid)); err != nil || !ours(info) {
			foreign++
			continue
		}
		all = append(all, k)
	}
	return slices.DeleteFunc(all, func(k Kernel) bool {
		s, err := fs.Stat(k.PID)
		return err != nil || s.Dead() || ids[s.PPID] == k.id
	}), foreign, nil
}

// kernel reads what a process's command line and environment tell. ipykernel, Colab's launcher and VS Code name the
// connection file as kernel-ID.json.
func kernel(fs proc.FS, pid int) (Kernel, bool) {
	args, err := fs.Cmdline(pid)
	if err != nil {
		return Kernel{}, false
	}
	for _, arg := range args {
		if at := strings.Index(arg, "=/"); strings.HasPrefix(arg, "-") && at > 0 {
			arg = arg[at+1:] // --f=/run/…/kernel-ID.json
		}
		base := filepath.Base(arg)
		id, isFile := strings.CutSuffix(base, ".json")
		id, isKernel := strings.CutPrefix(id, "kernel-")
		if !isFile || !isKernel || id == "" {
			continue
		}
		k := Kernel{PID: pid, id: id, runtime: filepath.Dir(arg)}
		env, _ := fs.Environ(pid) // another user's can't be read
		for _, entry := range env {
			if name, ok := strings.CutPrefix(entry, sessionName+"="); ok && strings.HasSuffix(name, Extension) {
				k.Notebook = name
			}
		}
		return k, true
	}
	return Kernel{}, false
}
