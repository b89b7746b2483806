package estimate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// Fence is what keeps a script's runs from files and network. The zero value lets it do what it always does.
type Fence struct {
	Files   FilesFence
	Network NetworkFence

	namespaces uintptr // flags of clone(2)
	dirs       []string
}

// FilesFence is what becomes of what the script writes.
type FilesFence uint8

// The ways, from the freest.
const (
	FilesReal FilesFence = iota // it is written
	FilesView                   // it goes to a copy that is removed; the script sees it as written
	FilesShut                   // nothing but temporary files is written
)

// NetworkFence is what the script reaches.
type NetworkFence string

// The ways, from the freest. py/memgauge_estimate_fence.py knows them by these names.
const (
	NetworkReal NetworkFence = ""
	NetworkOwn  NetworkFence = "own"  // itself, by loopback
	NetworkNone NetworkFence = "none" // nothing but unix sockets
)

// told is the fence as the Python side reads it.
func (f *Fence) told(scratch string) map[string]any {
	if f.Files == FilesReal && f.Network == NetworkReal {
		return nil
	}
	dirs := []string{}
	if f.Files == FilesView {
		dirs = f.dirs
	}
	return map[string]any{"scratch": scratch, "view": dirs, "writes": f.Files == FilesReal, "network": f.Network}
}

// attributes are those of a process in the fence.
func (f *Fence) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: f.namespaces}
	if f.namespaces&syscall.CLONE_NEWUSER != 0 {
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		if os.Getuid() != 0 { // else execve(2) leaves them to root
			a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN}
		}
	}
	return a
}

// environment tells libraries that there is no network, so that they take what they have instead of waiting for it.
func (f *Fence) environment() []string {
	if f.Network == NetworkReal {
		return nil
	}
	return []string{"HF_HUB_OFFLINE=1", "HF_DATASETS_OFFLINE=1", "TRANSFORMERS_OFFLINE=1", "WANDB_MODE=offline"}
}

// candidates are the fences that give what is wanted, the best first.
func candidates(r *Run) []Fence {
	space, flags := Fence{dirs: viewed(r.Argv)}, uintptr(0)
	shut := Fence{}
	if !r.Writes {
		space.Files, shut.Files = FilesView, FilesShut
		flags |= syscall.CLONE_NEWNS
	}
	if !r.Network {
		space.Network, shut.Network = NetworkOwn, NetworkNone
		flags |= syscall.CLONE_NEWNET
	}
	var out []Fence
	if os.Getuid() == 0 { // it may do it without a user namespace, in which it would lose sight of others' files
		space.namespaces = flags
		out = append(out, space)
	}
	space.namespaces = flags | syscall.CLONE_NEWUSER
	return append(out, space, shut)
}

// viewed are the directories that the script may seem to write: where it is run and beside it, where it lies, and where
// libraries keep what they have loaded, with locks.
func viewed(argv []string) []string {
	var out []string
	add := func(dir string) {
		if dir != "" && filepath.IsAbs(dir) && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	if dir, err := os.Getwd(); err == nil {
		add(dir)
		add(filepath.Dir(dir)) // for ../data
		if len(argv) > 0 && argv[0] != "-m" {
			script := argv[0]
			if !filepath.IsAbs(script) {
				script = filepath.Join(dir, script)
			}
			add(filepath.Dir(script))
		}
	}
	home, _ := os.UserHomeDir()
	add(home)
	for _, name := range []string{"XDG_CACHE_HOME", "HF_HOME", "TORCH_HOME"} {
		add(os.Getenv(name))
	}
	return out
}

// Enclose finds the best fence that can be had here, by trying it. Where none can, nothing may be run: the error says
// what the user can do.
func (r *Run) Enclose(ctx context.Context) error {
	if r.Fence = (Fence{}); r.Writes && r.Network {
		return nil
	}
	var why []error
	for _, f := range candidates(r) {
		err := f.try(ctx, r.Python)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			r.Fence = f
			return nil
		}
		why = append(why, err)
	}
	return remedy.Add(fmt.Errorf("the script can't be kept from files and network here: %w", errors.Join(why...)),
		"run it where it may do harm to neither, with --writes and --network")
}

// try runs the Python side without a script.
func (f *Fence) try(ctx context.Context, python string) error {
	dir, err := scratch()
	if err != nil {
		return err
	}
	defer func() { _ = dir.Discard() }()
	settings, err := json.Marshal(f.told(dir.Path()))
	if err != nil {
		return err
	}
	last := &lastBytes{}
	program := filepath.Join(dir.Path(), "py", "memgauge_estimate_fence.py")
	c := exec.CommandContext(ctx, python, program, string(settings))
	c.Stdout, c.Stderr, c.SysProcAttr = last, last, f.attributes()
	c.SysProcAttr.Pdeathsig = 0 // it goes by the thread, and this one is not locked; the context ends the process
	c.Env = append(os.Environ(), "MEMGAUGE_DISABLE=1", "PYTHONDONTWRITEBYTECODE=1")
	if err := c.Run(); err != nil {
		if said := strings.TrimSpace(last.String()); said != "" {
			return errors.New(said[strings.LastIndexByte(said, '\n')+1:])
		}
		return err
	}
	return nil
}

// scratch is a directory for one run, with the programs that run a script.
func scratch() (*rootdir.Dir, error) {
	dir, err := rootdir.Temp("", "memgauge-estimate-")
	if err != nil {
		return nil, err
	}
	if err := os.CopyFS(dir.Path(), recorder); err != nil { // nobody else has put anything there
		_ = dir.Discard()
		return nil, err
	}
	return dir, nil
}
