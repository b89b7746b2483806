package rootdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/trust"
)

// Replace writes a file, 0600, that is there whole, or as it was, whatever happens to the machine.
func (d *Dir) Replace(name string, write func(f *os.File) error) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("write", name, err)
	}
	defer done()
	if err := unlike(at, base, 0, nil); err != nil { // rename(2) would replace a link or a pipe, which is somebody's
		return d.fail("write", name, err)
	}
	fd, temp := -1, ""
	for range tries {
		temp = randomName("." + base + "-")
		if fd, err = openFile(at, temp, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL); !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return d.fail("write", name, err)
	}
	f := os.NewFile(uintptr(fd), temp)
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = unix.Renameat(at, temp, at, base)
	}
	if err != nil {
		_ = unix.Unlinkat(at, temp, 0) // a full disk needs the room
		return d.fail("write", name, err)
	}
	return d.fail("write", name, syncDir(at))
}

// ReplaceText is Replace with a text.
func (d *Dir) ReplaceText(name string, text []byte) error {
	return d.Replace(name, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// Make writes a file, 0600, that must not be there yet.
func (d *Dir) Make(name string, write func(f *os.File) error) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	if err := errors.Join(write(f), f.Close()); err != nil {
		return errors.Join(d.fail("write", name, err), d.Remove(name)) // a full disk needs the room
	}
	return nil
}

// MakeText is Make with a text.
func (d *Dir) MakeText(name string, text []byte) error {
	return d.Make(name, func(f *os.File) error {
		_, err := f.Write(text)
		return err
	})
}

// syncDir makes the names in a directory survive a crash of the machine.
func syncDir(at int) error {
	fd, err := again(func() (int, error) {
		return unix.Openat(at, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Fsync(fd)
}

// Move gives what lies at a name another one, in the same directory or in one of the same file system. It takes the
// place of a file there.
func (d *Dir) Move(name string, to *Dir, as string) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("move", name, err)
	}
	defer done()
	toAt, toBase, toDone, err := to.parent(as)
	if err != nil {
		return to.fail("move", as, err)
	}
	defer toDone()
	return to.fail("move", as, unix.Renameat(at, base, toAt, toBase))
}

// Give is Move for a file that other code has made by its path: it becomes 0600, and must be a file of ours with one
// name.
func (d *Dir) Give(name string, to *Dir, as string) error {
	f, err := d.open(name, "open", func(at int, base string) (int, error) {
		return openFile(at, base, unix.O_RDWR)
	})
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fchmod(int(f.Fd()), fileMode); err != nil {
		return d.fail("chmod", name, err)
	}
	return d.Move(name, to, as)
}

// Exchange swaps what lies at two names (RENAME_EXCHANGE).
func (d *Dir) Exchange(a, b string) error {
	return d.fail("exchange", a, unix.Renameat2(d.fd(), a, d.fd(), b, unix.RENAME_EXCHANGE))
}

// Put moves a file to a name below d, and makes the directories on the way. What it returned from survives a crash of
// the machine: the file is synced, then every directory between d and it. One that is clean costs little, and another
// put may have made any of them a moment ago.
func (d *Dir) Put(from *Dir, file, name string) error {
	f, err := from.Open(file)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return from.fail("sync", file, err)
	}
	if !below(name) {
		return d.fail("write", name, fmt.Errorf("%w: no name below a directory", ErrRefused))
	}
	dirs, err := d.chain(path.Dir(name))
	defer func() {
		for _, at := range dirs[1:] {
			unix.Close(at)
		}
	}()
	if err != nil {
		return d.fail("make", path.Dir(name), err)
	}
	last, base := dirs[len(dirs)-1], path.Base(name)
	if err := unlike(last, base, 0, nil); err != nil {
		return d.fail("write", name, err)
	}
	at, source, done, err := from.parent(file)
	if err != nil {
		return from.fail("move", file, err)
	}
	defer done()
	if err := unix.Renameat(at, source, last, base); err != nil {
		return d.fail("write", name, err)
	}
	for _, at := range slices.Backward(dirs) {
		if err := syncDir(at); err != nil {
			return d.fail("sync", path.Dir(name), err)
		}
	}
	return nil
}

// Sync makes the names in the directory last.
func (d *Dir) Sync() error { return d.fail("sync", ".", syncDir(d.fd())) }

// chain opens the directories from d to a name, and makes those that are missing. The first is d's own descriptor.
func (d *Dir) chain(name string) (dirs []int, err error) {
	dirs = []int{d.fd()}
	if name == "." {
		return dirs, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		at := dirs[len(dirs)-1]
		fd, err := openDir(at, part)
		for try := 0; errors.Is(err, fs.ErrNotExist) && try < tries; try++ { // removed again when it was empty
			if err = mkdir(at, part, dirMode); err == nil || errors.Is(err, fs.ErrExist) {
				fd, err = openDir(at, part)
			}
		}
		if err != nil {
			return dirs, err
		}
		dirs = append(dirs, fd)
	}
	return dirs, nil
}

// Link makes a symbolic link to a path, for others than this package to follow.
func (d *Dir) Link(to, name string) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("link", name, err)
	}
	defer done()
	return d.fail("link", name, unix.Symlinkat(to, at, base))
}

// PrivateSocket gives a socket the mode 0600.
func (d *Dir) PrivateSocket(name string) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("chmod", name, err)
	}
	defer done()
	if err := unlike(at, base, fs.ModeSocket, nil); err != nil {
		return d.fail("chmod", name, err)
	}
	return d.fail("chmod", name, unix.Fchmodat(at, base, fileMode, 0))
}

// Remove removes a file, a link itself, or an empty directory.
func (d *Dir) Remove(name string) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("remove", name, err)
	}
	defer done()
	err = unix.Unlinkat(at, base, 0)
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EPERM) { // EPERM: POSIX's word for a directory
		if dirErr := unix.Unlinkat(at, base, unix.AT_REMOVEDIR); !errors.Is(dirErr, unix.ENOTDIR) {
			err = dirErr
		}
	}
	return d.fail("remove", name, err)
}

// Unlink is Remove for a file alone, and not for a link.
func (d *Dir) Unlink(name string) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("remove", name, err)
	}
	defer done()
	if err := unlike(at, base, 0, nil); err != nil {
		return d.fail("remove", name, err)
	}
	return d.fail("remove", name, unix.Unlinkat(at, base, 0))
}

// Prune removes directories from a name upwards that are empty.
func (d *Dir) Prune(name string) {
	for ; name != "." && name != ""; name = path.Dir(name) {
		at, base, done, err := d.parent(name)
		if err != nil {
			return
		}
		err = unix.Unlinkat(at, base, unix.AT_REMOVEDIR)
		done()
		if err != nil {
			return
		}
	}
}

// RemoveAll removes what lies at a name with all below it. It leaves no directory that it has opened: a link is removed
// itself, and what it leads to stays. Nothing there is no error.
func (d *Dir) RemoveAll(name string) error {
	at, base, done, err := d.parent(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return d.fail("remove", name, err)
	}
	defer done()
	return d.fail("remove", name, removeAll(at, base, maxDepth))
}

// maxDepth bounds how deep a tree is removed, in directories: each level holds a descriptor. What memgauge makes has
// five.
const maxDepth = 200

var errDeep = fmt.Errorf("%w: more than %d directories in each other", ErrRefused, maxDepth)

func removeAll(at int, name string, depth int) error {
	err := unix.Unlinkat(at, name, 0)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EACCES) {
		return err
	}
	if depth == 0 {
		return errDeep
	}
	fd, openErr := again(func() (int, error) {
		return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	switch {
	case errors.Is(openErr, fs.ErrNotExist):
		return nil
	case errors.Is(openErr, unix.ENOTDIR), errors.Is(openErr, unix.ELOOP):
		return err // a file that may not be removed
	case openErr != nil:
		return openErr
	}
	emptyErr := emptyDir(fd, depth-1)
	if err := unix.Unlinkat(at, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(emptyErr, err)
	}
	return nil
}

// emptyDir removes what is in an open directory, and closes it.
func emptyDir(fd, depth int) (err error) {
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		err = errors.Join(err, removeAll(fd, name, depth))
	}
	return err
}

// Empty removes all that is in the directory.
func (d *Dir) Empty() error {
	fd, err := d.readable()
	if err == nil {
		err = emptyDir(fd, maxDepth)
	}
	return d.fail("empty", ".", err)
}

// readable is a descriptor by which the directory can be listed.
func (d *Dir) readable() (int, error) {
	return again(func() (int, error) {
		return unix.Openat(d.fd(), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
}

// Handle is the directory as a file, which can be locked and listed.
func (d *Dir) Handle() (*os.File, error) {
	fd, err := d.readable()
	if err != nil {
		return nil, d.fail("open", ".", err)
	}
	return os.NewFile(uintptr(fd), d.path), nil
}

// List tells of what is in the directory, by name. What was removed meanwhile is left out.
func (d *Dir) List() ([]Info, error) {
	fd, err := d.readable()
	if err != nil {
		return nil, d.fail("list", ".", err)
	}
	list, err := listDir(fd)
	return list, d.fail("list", ".", err)
}

func listDir(fd int) ([]Info, error) {
	dir := os.NewFile(uintptr(fd), ".")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var list []Info
	for _, name := range names {
		i, err := lstat(fd, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, i)
	}
	return list, nil
}

// Walk calls visit for everything below, by its name below d, directories before what is in them. A directory for which
// visit returns fs.SkipDir is not entered, and no link is. What was removed meanwhile is left out.
func (d *Dir) Walk(visit func(name string, i Info) error) error { return d.walk("", visit, maxDepth) }

func (d *Dir) walk(prefix string, visit func(name string, i Info) error, depth int) error {
	list, err := d.List()
	if err != nil {
		return err
	}
	for _, i := range list {
		name := path.Join(prefix, i.Name)
		err := visit(name, i)
		if errors.Is(err, fs.SkipDir) || err == nil && !i.Mode.IsDir() {
			continue
		}
		if err != nil {
			return err
		}
		if depth == 0 {
			return d.fail("list", i.Name, errDeep)
		}
		sub, err := d.Sub(i.Name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = sub.walk(name, visit, depth-1)
		sub.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Check refuses a tree, for code that writes there by path, unless all in it is ours: files with one name each, and
// directories that others can't write, but for the group where the level is trust.Data.
func (d *Dir) Check(level trust.Level) error {
	others := fs.FileMode(0o022)
	if level == trust.Data {
		others = 0o002
	}
	return d.Walk(func(name string, i Info) error {
		var err error
		switch {
		case int(i.UID) != os.Geteuid():
			err = fmt.Errorf("%w: it belongs to uid %d", ErrRefused, i.UID)
		case i.Mode.IsDir() && i.Mode&others != 0:
			err = fmt.Errorf("%w: others can write it", ErrRefused)
		case i.Mode.IsDir():
		default:
			err = checkFile(i, unix.O_RDWR)
		}
		return d.fail("check", name, err)
	})
}
