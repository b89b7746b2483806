package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// Options are the settings that an observed command starts with.
type Options struct {
	Budget float64 // share of the step time that observing may cost, 0.01 for 1 %
	Trace  string  // auto, all, off
	Binary string  // of memgauge, for the Python classes that start it; "" if they shall search PATH
	// how PyTorch's memory history is recorded from the start, as gauges/history.py reads it; "" for not at all
	Record string
	// Guard is a policy and Policy its settings for the script, as guard/policy.py and guarding.py read them; "" for
	// none
	Guard, Policy string
}

func names() []string { return slices.Sorted(maps.Keys(source())) }

// Install unpacks the agent into home/agent/HASH and returns that directory. A directory of another version is never
// touched, since a running job may use it. A directory of this version is replaced as a whole if it is damaged, or if
// other users could have changed it. If other users can replace files in home, the error is trust.ErrOthers, and
// nothing is made. Several installs may run at once: each unpacks under a name of its own, and the first to rename
// wins.
func Install(home string) (dir string, err error) {
	at := filepath.Join(home, "agent")
	dir = filepath.Join(at, Hash())
	if strings.ContainsRune(dir, filepath.ListSeparator) {
		return "", remedy.Add(fmt.Errorf("install agent: %s has a colon, which ends an entry of PYTHONPATH", dir),
			"set MEMGAUGE_HOME to a directory without a colon")
	}
	parent, err := rootdir.Own(at, trust.Code)
	if err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	defer parent.Close()
	if intact(dir) {
		return dir, nil
	}
	if err := install(parent); err != nil && !intact(dir) {
		return "", fmt.Errorf("install agent: %w", err)
	}
	return dir, nil
}

// install unpacks the agent beside its place, and then gives it that.
func install(parent *rootdir.Dir) error {
	temp, err := parent.Temp(".new-")
	if err != nil {
		return err
	}
	defer temp.Close()
	name := filepath.Base(temp.Path())
	defer func() { _ = parent.RemoveAll(name) }() // by then it holds what was replaced
	if err := unpack(temp); err != nil {
		return err
	}
	return replace(parent, name, Hash())
}

// intact reports whether every file of ours is there with its content, and besides them only caches of Python. Reading
// 400 KB costs 2 ms.
func intact(dir string) bool {
	for name, want := range source() {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return trust.Tree(dir, expected) == nil
}

// caches are what Pythons leave: bytecode with its temporary files (Lib/importlib/_bootstrap_external.py,
// _write_atomic), and what an attach has compiled (inject.py).
var caches = pattern.Of(`^(boot|lib/memgauge(/[a-z_]+)*)/__pycache__/` +
	`[a-z_]+\.[a-z]+-?\d+[a-z0-9-]*(\.opt-\w+)?\.pyc(\.\d+)?$|` +
	`^attach-[0-9a-f]+-[0-9a-f]+-\d(\.\d+)?$`)

// folders are the directories of the agent's files, by path.
var folders = sync.OnceValue(func() map[string]bool {
	found := map[string]bool{}
	for name := range source() {
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			found[dir] = true
		}
	}
	return found
})

func expected(path string, isDir bool) bool {
	if isDir {
		dir, cache := strings.CutSuffix(path, "/__pycache__")
		return folders()[dir] && !(cache && dir == "lib")
	}
	_, ours := source()[path]
	return ours || caches().MatchString(path)
}

// unpack makes every file and directory with its mode, regardless of the umask.
func unpack(dir *rootdir.Dir) error {
	for name, data := range source() {
		if in := path.Dir(name); in != "." {
			if err := dir.MkdirAll(in); err != nil {
				return err
			}
		}
		if err := dir.MakeText(name, data); err != nil {
			return err
		}
	}
	return nil
}

// replace exchanges temp and dir. A Python that starts meanwhile finds the old files or the new ones, which differ only
// in the damaged ones.
func replace(parent *rootdir.Dir, temp, dir string) error {
	err := parent.Move(temp, parent, dir) // over nothing, or an empty directory
	if !errors.Is(err, fs.ErrExist) && !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	err = parent.Exchange(temp, dir)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	old := temp + ".old" // a file system without exchange: for a moment there is none
	defer func() { _ = parent.RemoveAll(old) }()
	if err := parent.Move(dir, parent, old); err != nil {
		return err
	}
	return parent.Move(temp, parent, dir)
}

// optional are the variables that only some sessions have.
var optional = []string{"MEMGAUGE_RECORD", "MEMGAUGE_GUARD", "MEMGAUGE_POLICY"}

// Env is the environment base with what makes every Python of the job load the agent from dir, which Install returned,
// and write into the session's runtime directory.
func Env(base []string, dir, runtime string, opts Options) []string {
	boot := filepath.Join(dir, "boot")
	set := map[string]string{
		"MEMGAUGE_RUNTIME": runtime,
		"MEMGAUGE_BUDGET":  strconv.FormatFloat(opts.Budget, 'g', -1, 64),
		"MEMGAUGE_TRACE":   opts.Trace,
		"PYTHONPATH":       boot,
	}
	if opts.Binary != "" {
		set["MEMGAUGE_BINARY"] = opts.Binary
	}
	for key, value := range map[string]string{"MEMGAUGE_RECORD": opts.Record, "MEMGAUGE_GUARD": opts.Guard,
		"MEMGAUGE_POLICY": opts.Policy} {
		if value != "" {
			set[key] = value
		}
	}
	var env []string
	for _, entry := range base {
		key, value, _ := strings.Cut(entry, "=")
		if _, ours := set[key]; !ours {
			if !slices.Contains(optional, key) { // of a session around this one
				env = append(env, entry)
			}
		} else if key == "PYTHONPATH" {
			set[key] = pythonPath(boot, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(set)) {
		env = append(env, key+"="+set[key])
	}
	return env
}

// pythonPath puts boot in front of the user's own path, in place of the boot directory of a session around this one.
func pythonPath(boot, value string) string {
	entries := []string{boot}
	for _, entry := range filepath.SplitList(value) {
		if !isBoot(entry) {
			entries = append(entries, entry)
		}
	}
	return strings.Join(entries, string(filepath.ListSeparator))
}

func isBoot(entry string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(entry), "lib", "memgauge", "__init__.py"))
	return filepath.Base(entry) == "boot" && err == nil
}
