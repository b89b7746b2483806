package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/remedy"
)

// entry is a file of a lake; name has slashes and no leading one.
type entry struct {
	name     string
	size     int64
	modified time.Time
}

// readable is an open file of a lake, for reading in any order.
type readable interface {
	io.ReaderAt
	io.ReadSeeker
	io.Closer
}

// place is where a lake lies. What put returned from survives a crash of the machine.
type place interface {
	list(ctx context.Context, prefix string) ([]entry, error)
	put(ctx context.Context, name, from string) error // takes the local file away
	open(ctx context.Context, name string) (readable, error)
	local(ctx context.Context, e entry, cache string) (path string, err error) // a file here with its content
	remove(ctx context.Context, names []string) error
	stage() string // directory of this machine for files that are being made
	text() string  // for messages
	close() error
}

// directory is a place on this machine.
type directory struct {
	root string
	lock *os.File // held by the writer; nil for a reader
}

const stageName = ".stage"

// openDirectory opens a lake in a directory. A writer makes it, and locks others out.
func openDirectory(root string, write bool) (place, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if !write {
		info, err := os.Stat(root)
		if err == nil && !info.IsDir() {
			err = errors.New("is no directory")
		}
		if err != nil {
			return nil, fmt.Errorf("open the lake %s: %w", root, err)
		}
		return &directory{root: root}, nil
	}
	stage := filepath.Join(root, stageName)
	if err := os.MkdirAll(stage, 0o700); err != nil {
		return nil, fmt.Errorf("make the lake: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(root, ".lock"), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the lake: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, remedy.Add(fmt.Errorf("another process writes the lake %s", root),
			"a lake has one writer: end the other hub or memgauge lake first")
	}
	d := &directory{root: root, lock: lock}
	if err := d.empty(stage); err != nil {
		lock.Close()
		return nil, fmt.Errorf("clear %s: %w", stage, err)
	}
	return d, nil
}

// empty removes what a killed writer was making.
func (d *directory) empty(dir string) error {
	left, err := os.ReadDir(dir)
	for _, e := range left {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

func (d *directory) list(ctx context.Context, prefix string) (list []entry, err error) {
	top := filepath.Join(d.root, filepath.FromSlash(prefix))
	err = filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) { // given up meanwhile, or never there
			return nil
		}
		if err != nil || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
		if strings.HasPrefix(e.Name(), ".") && path != d.root {
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			return nil // removed while we looked, or nothing of ours
		}
		name, err := filepath.Rel(d.root, path)
		list = append(list, entry{filepath.ToSlash(name), info.Size(), info.ModTime()})
		return err
	})
	return list, err
}

// put syncs the file, moves it to its name and syncs the directories that name it, as far up as they are new: rename(2)
// alone survives no loss of power.
func (d *directory) put(_ context.Context, name, from string) error {
	if err := syncPath(from); err != nil {
		return err
	}
	to := filepath.Join(d.root, filepath.FromSlash(name))
	dir := filepath.Dir(to)
	var dirty []string
	for at := dir; at != d.root; at = filepath.Dir(at) {
		dirty = append(dirty, at)
		if _, err := os.Stat(at); err == nil {
			break
		}
	}
	dirty = append(dirty, filepath.Dir(dirty[len(dirty)-1]))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	for _, path := range dirty {
		if err := syncPath(path); err != nil {
			return err
		}
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func (d *directory) open(_ context.Context, name string) (readable, error) {
	f, err := os.Open(filepath.Join(d.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *directory) local(_ context.Context, e entry, _ string) (string, error) {
	return filepath.Join(d.root, filepath.FromSlash(e.name)), nil
}

// remove takes files away, and directories that are empty then.
func (d *directory) remove(_ context.Context, names []string) (err error) {
	for _, name := range names {
		path := filepath.Join(d.root, filepath.FromSlash(name))
		if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		for at := filepath.Dir(path); at != d.root && os.Remove(at) == nil; {
			at = filepath.Dir(at)
		}
	}
	return err
}

func (d *directory) stage() string { return filepath.Join(d.root, stageName) }
func (d *directory) text() string  { return d.root }

func (d *directory) close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}
