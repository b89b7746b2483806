// Package shadow owns copies of a program's directory in which it runs with other text: its Python files are copied,
// all else is a link to what there is. The files themselves stay as they are; so does what the program writes there by
// a relative name, which goes with the copy, unless it writes through a link.
package shadow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

const (
	maxEntries = 20_000   // files and links of a copy: ten times a large project's, without its data
	maxBytes   = 64 << 20 // of its Python files
	maxDepth   = 40
)

// Tree is the copy of a directory.
type Tree struct {
	Root    string // that was copied
	dir     *rootdir.Dir
	entries int
	bytes   int64
}

// Make copies a directory, with other text for some of its files, by their absolute paths.
func Make(root string, changed map[string][]byte) (*Tree, error) {
	dir, err := rootdir.Temp("", "memgauge-try-")
	if err != nil {
		return nil, fmt.Errorf("copy %s: %w", root, err)
	}
	t := &Tree{Root: filepath.Clean(root), dir: dir}
	if err := t.fill("", changed, 0); err != nil {
		t.Remove()
		return nil, remedy.Add(fmt.Errorf("copy %s: %w", root, err),
			"run it from the directory that has the program and no more")
	}
	return t, nil
}

// Path is where the copy lies.
func (t *Tree) Path() string { return t.dir.Path() }

// Remove removes the copy. What its links lead to stays.
func (t *Tree) Remove() { _ = t.dir.Discard() } // what stays is below the temporary directory

// At is a path below the copied directory as it is in the copy; others stay as they are.
func (t *Tree) At(path string) string {
	if path == t.Root {
		return t.Path()
	}
	if rest, below := strings.CutPrefix(path, strings.TrimSuffix(t.Root, "/")+"/"); below {
		return filepath.Join(t.Path(), rest)
	}
	return path
}

// Command is a command with what names files of the directory as they are in the copy, whole arguments and --name=PATH.
func (t *Tree) Command(args []string) (out []string) {
	for _, a := range args {
		name, value, joined := strings.Cut(a, "=")
		if joined && strings.HasPrefix(name, "-") {
			out = append(out, name+"="+t.At(value))
		} else {
			out = append(out, t.At(a))
		}
	}
	return out
}

// PythonPath is the environment's PYTHONPATH with the copy in place of the directory; "" where there is none.
func (t *Tree) PythonPath() string {
	list := filepath.SplitList(os.Getenv("PYTHONPATH"))
	for i, dir := range list {
		list[i] = t.At(dir)
	}
	return strings.Join(list, string(filepath.ListSeparator))
}

func (t *Tree) fill(below string, changed map[string][]byte, depth int) error {
	list, err := os.ReadDir(filepath.Join(t.Root, below))
	if err != nil {
		return err
	}
	for _, e := range list {
		if t.entries++; t.entries > maxEntries || depth > maxDepth {
			return fmt.Errorf("more than %d files, or deeper than %d directories", maxEntries, maxDepth)
		}
		name := filepath.Join(below, e.Name())
		path := filepath.Join(t.Root, name)
		switch {
		case e.IsDir() && e.Name() == "__pycache__": // of other text
		case e.IsDir() && own(path, e.Name()):
			if err = t.dir.Mkdir(name); err == nil {
				err = t.fill(name, changed, depth+1)
			}
		case e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".py"):
			err = t.copy(name, path, changed)
		default:
			err = t.dir.Link(path, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) copy(name, path string, changed map[string][]byte) error {
	text, is := changed[path]
	if !is {
		var err error
		if text, err = os.ReadFile(path); errors.Is(err, fs.ErrNotExist) {
			return nil // gone since
		} else if err != nil {
			return err
		}
	}
	if t.bytes += int64(len(text)); t.bytes > maxBytes {
		return fmt.Errorf("more than %d bytes of Python", maxBytes)
	}
	return t.dir.MakeText(name, text)
}

// others are directories that hold no code of the user's own.
var others = map[string]bool{"node_modules": true, "site-packages": true, "dist-packages": true}

// own reports whether a directory has the user's own Python files, itself or below.
func own(path, name string) bool {
	if others[name] || strings.HasPrefix(name, ".") {
		return false
	}
	if _, err := os.Stat(filepath.Join(path, "pyvenv.cfg")); err == nil {
		return false // a virtual environment
	}
	found, seen := false, 0
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if seen++; err != nil || seen > maxEntries { // data in very many files
			return fs.SkipAll
		}
		if found = !e.IsDir() && strings.HasSuffix(e.Name(), ".py"); found {
			return fs.SkipAll
		}
		return nil
	})
	return found
}
