package sink

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
)

// Set is the files of one command, and the directories that are made for them: they appear together at its end, or none
// of them does.
type Set struct {
	all     []Sink
	folders []*Folder
	made    []func() error // each removes a directory that was made, those above first
	stands  bool           // Commit has succeeded
}

// dirMode is that of a directory for output, less what the umask takes away.
const dirMode = 0o777

// Folder is a directory that is filled with files of a set. Their names may come from anywhere: none leads out of it,
// nor through a link.
type Folder struct {
	set  *Set
	root *rootdir.Dir
	path string
}

// Folder opens a directory, and makes it and those above it that are not there.
func (s *Set) Folder(dir string) (*Folder, error) {
	var missing []string
	for at := filepath.Clean(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		missing = append([]string{at}, missing...)
	}
	root, err := rootdir.MakeAs(dir, dirMode)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", dir, Cause(err))
	}
	for _, path := range missing {
		s.made = append(s.made, func() error { return rootdir.Remove(path) })
	}
	f := &Folder{s, root, dir}
	s.folders = append(s.folders, f)
	return f, nil
}

// Create prepares a file below the directory, and makes the directories between them. The name's parts are separated by
// slashes.
func (f *Folder) Create(name string) (io.Writer, error) {
	full := filepath.Join(f.path, filepath.FromSlash(name))
	out, err := f.create(full, name)
	if err != nil {
		return nil, remedy.Add(fmt.Errorf("write %s: %w", full, Cause(err)), "name another directory")
	}
	f.set.Add(out)
	return out, nil
}

func (f *Folder) create(full, name string) (Sink, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("%w: no name below a directory", rootdir.ErrRefused)
	}
	dir, err := f.sub(path.Dir(name))
	if err != nil {
		return nil, err
	}
	return create(full, dir, path.Base(name), refuseOther)
}

// sub opens the directory of a name, "." for the folder itself, after making what is not there.
func (f *Folder) sub(name string) (*rootdir.Dir, error) {
	if name == "." {
		return rootdir.Open(f.root.FD())
	}
	up, err := f.sub(path.Dir(name))
	if err != nil {
		return nil, err
	}
	up.Close()
	switch err := f.root.MkdirAs(name, dirMode); {
	case err == nil:
		f.set.made = append(f.set.made, func() error { return f.root.Remove(name) })
	case !errors.Is(err, fs.ErrExist):
		return nil, err
	}
	return f.root.Sub(name)
}

// Add adds a file to the set.
func (s *Set) Add(out Sink) { s.all = append(s.all, out) }

// Commit makes all files appear.
func (s *Set) Commit() error {
	for _, out := range s.all {
		if err := out.Commit(); err != nil {
			return err
		}
	}
	s.stands = true
	return nil
}

// Discard removes the files that Commit has not made appear, and the directories that were made for them. It is called
// in any case, since it closes the set.
func (s *Set) Discard() {
	for _, out := range s.all {
		out.Discard()
	}
	for i := len(s.made) - 1; i >= 0 && !s.stands; i-- {
		_ = s.made[i]() // it stays if something is in it by now
	}
	for _, f := range s.folders {
		f.root.Close()
	}
	s.folders, s.made = nil, nil
}
