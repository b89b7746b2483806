package agent

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Options are the settings that an observed command starts with.
type Options struct {
	Budget float64 // share of the step time that observing may cost, 0.01 for 1 %
	Trace  string  // auto, all, off
	Binary string  // of memgauge, for the Python classes that start it; "" if they shall search PATH
}

func names() []string { return slices.Sorted(maps.Keys(source())) }

// Install unpacks the agent into home/agent/HASH and returns that directory. A directory of another version is never
// touched, since a running job may use it; one of this version that is damaged is put in order. Several installs at once
// are fine: each unpacks under a name of its own, and the first to rename wins.
func Install(home string) (dir string, err error) {
	parent := filepath.Join(home, "agent")
	dir = filepath.Join(parent, Hash())
	if intact(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	temp, err := os.MkdirTemp(parent, ".new-*") // made with 0700
	if err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := unpack(temp); err != nil {
		return "", fmt.Errorf("install agent: %w", err)
	}
	err = os.Rename(temp, dir)
	if err == nil || intact(dir) {
		return dir, nil
	}
	if !errors.Is(err, fs.ErrExist) { // a directory that is not empty can't be renamed over
		return "", fmt.Errorf("install agent: %w", err)
	}
	if err := repair(temp, dir); err != nil {
		return "", fmt.Errorf("repair agent: %w", err)
	}
	return dir, nil
}

// intact says whether every file of ours is there with its content. Reading 100 KB costs less than 1 ms.
func intact(dir string) bool {
	for name, want := range source() {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, want) {
			return false
		}
	}
	return true
}

func unpack(dir string) error {
	for name, data := range source() {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// repair moves good files over bad ones, one at a time: a Python that starts meanwhile reads the old or the new one whole.
func repair(from, dir string) error {
	for name := range source() {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			return err
		}
		if err := os.Rename(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

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
	var env []string
	for _, entry := range base {
		key, value, _ := strings.Cut(entry, "=")
		if _, ours := set[key]; !ours {
			env = append(env, entry)
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
	_, err := os.Stat(filepath.Join(filepath.Dir(entry), "lib", "memgauge", "_spec.py"))
	return filepath.Base(entry) == "boot" && err == nil
}
