package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
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
	// dirs are the names of the directories right below one; "" is the lake's own. There may be none of that name.
	dirs(ctx context.Context, of string) ([]string, error)
	put(ctx context.Context, name, made string) error // takes the file of the stage away
	open(ctx context.Context, name string) (readable, error)
	// local is a file on this machine with an entry's content. What is not here comes into the cache.
	local(ctx context.Context, e entry, cache *rootdir.Dir) (*os.File, error)
	remove(ctx context.Context, names []string) error
	// move gives a file another name, which a crash may undo.
	move(ctx context.Context, name, to string) error
	stage() *rootdir.Dir // directory of this machine for files that are being made; ours alone
	text() string        // for messages
	close() error
}

// directory is a place on this machine. It may have come from elsewhere, with links in it, or belong to a user who
// changes it while we write: all below it is reached from the root's descriptor, through no link.
type directory struct {
	root *rootdir.Dir
	made *rootdir.Dir // the stage; nil for a reader
	lock *os.File     // held by the writer; nil for a reader

	reads *progress // of a reader; nil where nobody looks at it
}

const stageName = ".stage"

// openDirectory opens a lake in a directory. A writer makes it, and locks others out.
func openDirectory(path string, write bool) (place, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if !write {
		root, err := rootdir.Open(path)
		if err != nil {
			return nil, fmt.Errorf("open the lake: %w", err)
		}
		return &directory{root: root}, nil
	}
	root, err := rootdir.Make(path)
	if err != nil {
		return nil, fmt.Errorf("make the lake: %w", err)
	}
	d := &directory{root: root}
	if err := d.take(); err != nil {
		_ = d.close()
		return nil, err
	}
	return d, nil
}

// take makes us the lake's writer, and removes what a killed one was making.
func (d *directory) take() (err error) {
	if d.lock, err = d.root.Edit(".lock"); err != nil {
		return fmt.Errorf("lock the lake: %w", err)
	}
	if err := rootdir.TryLock(d.lock, true); err != nil {
		return remedy.Add(fmt.Errorf("another process writes the lake %s", d.text()),
			"a lake has one writer: end the other hub or memgauge lake first")
	}
	if err := d.root.MkdirAll(stageName); err != nil {
		return fmt.Errorf("make the lake: %w", err)
	}
	if d.made, err = d.root.Sub(stageName); err == nil {
		err = d.made.Private()
	}
	if err == nil {
		err = d.made.Empty()
	}
	if err != nil {
		return fmt.Errorf("clear the lake's stage: %w", err)
	}
	return nil
}

// maxDepth is how many directories a file of a lake lies in: table, job, date, hour and tier. Whoever made a lake can
// nest others without end.
const maxDepth = 5

// list tells of the files below a directory. A link is refused by its name: what it leads to is no part of the lake.
func (d *directory) list(ctx context.Context, prefix string) (list []entry, err error) {
	d.reached(prefix)
	top, prefix := d.root, strings.TrimSuffix(prefix, "/")
	if prefix != "" {
		top, err = d.root.Sub(prefix)
		if errors.Is(err, fs.ErrNotExist) { // given up meanwhile, or never there
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer top.Close()
	}
	err = top.Walk(func(name string, i rootdir.Info) error {
		d.reached(path.Join(prefix, name))
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case strings.HasPrefix(i.Name, "."):
			return fs.SkipDir
		case i.Mode.IsDir() && strings.Count(path.Join(prefix, name), "/") >= maxDepth: // none of ours
			return fs.SkipDir
		case i.Mode.Type() == fs.ModeSymlink:
			return aLink(top, name)
		case i.Mode.IsRegular():
			list = append(list, entry{path.Join(prefix, name), i.Size, i.Modified})
		}
		return nil
	})
	return list, err
}

func (d *directory) dirs(_ context.Context, of string) (names []string, err error) {
	d.reached(of)
	top := d.root
	if of != "" {
		top, err = d.root.Sub(of)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		defer top.Close()
	}
	list, err := top.List()
	for _, i := range list {
		if i.Mode.Type() == fs.ModeSymlink {
			return nil, aLink(top, i.Name)
		}
		if i.Mode.IsDir() && !strings.HasPrefix(i.Name, ".") {
			names = append(names, i.Name)
		}
	}
	return names, err
}

func aLink(top *rootdir.Dir, name string) error {
	return remedy.Add(fmt.Errorf("%w: %s is a link", rootdir.ErrRefused, filepath.Join(top.Path(), name)),
		"no link is followed in a lake: remove it, and mount what lies elsewhere instead")
}

// put syncs the file and the directories that name it: rename(2) alone survives no loss of power.
func (d *directory) put(_ context.Context, name, made string) error {
	return d.root.Put(d.made, made, name)
}

func (d *directory) open(_ context.Context, name string) (readable, error) {
	d.reached(name)
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *directory) local(_ context.Context, e entry, _ *rootdir.Dir) (*os.File, error) {
	d.reached(e.name)
	return d.root.Open(e.name)
}

// remove takes files away, and directories that are empty then.
func (d *directory) remove(_ context.Context, names []string) (err error) {
	for _, name := range names {
		if e := d.root.Unlink(name); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		d.root.Prune(path.Dir(name))
	}
	return err
}

// move takes the directories away that are empty then. Nothing is synced: a crash of the machine may undo it, and then
// it is done again. There may be tens of thousands of files to move.
func (d *directory) move(_ context.Context, name, to string) error {
	if err := d.root.MkdirAll(path.Dir(to)); err != nil {
		return err
	}
	if err := d.root.Move(name, d.root, to); err != nil {
		return err
	}
	d.root.Prune(path.Dir(name))
	return nil
}

// reached notes what is read now.
func (d *directory) reached(name string) {
	d.reads.reached(filepath.Join(d.root.Path(), filepath.FromSlash(name)))
}

func (d *directory) stage() *rootdir.Dir { return d.made }
func (d *directory) text() string        { return d.root.Path() }

func (d *directory) close() (err error) {
	if d.made != nil {
		err = d.made.Close()
	}
	if d.lock != nil {
		err = errors.Join(err, rootdir.Unlock(d.lock))
	}
	return errors.Join(err, d.root.Close())
}
