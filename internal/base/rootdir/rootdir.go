// Package rootdir owns what memgauge makes, writes and removes on a disk: it opens a directory once, and from then on
// reaches everything below it through that descriptor. Below the directory no symbolic link is followed, whoever made
// it: a name that is one, or leads through one, is refused. Files are regular ones; a file that is written in place is
// ours and has one name only, since writing through a hard link changes a file elsewhere. It knows nothing of what the
// files are for.
package rootdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// ErrRefused means that something lies at a name that memgauge has not put there, or that leads elsewhere.
var ErrRefused = errors.New("refused")

const (
	dirMode  = 0o700
	fileMode = 0o600
)

// Dir is an open directory. Its methods may be called from several goroutines, but for Close.
type Dir struct {
	f    *os.File // O_PATH: that needs no right to list it
	path string
	up   *Dir // of a temporary one: where it lies
	owns bool // closes up
}

// Open opens a directory that is there. Links on the way to it are followed; ErrForeign tells of one that is not.
func Open(dir string) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	fd, err := resolve(abs)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return &Dir{f: os.NewFile(uintptr(fd), dir), path: dir}, nil
}

// Own opens a directory of ours that nobody else can exchange for another one, and makes it if it is not there. Others
// on the way to it are refused with trust.ErrOthers.
func Own(dir string, level trust.Level) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err == nil {
		err = trust.Path(abs, level)
	}
	var d *Dir
	if err == nil {
		d, err = makePath(abs, dirMode)
	}
	if err != nil {
		return nil, othersHint(err)
	}
	if err := trust.Path(abs, level); err != nil { // of what was missing before, somebody may have made a part
		d.Close()
		return nil, othersHint(err)
	}
	d.path = dir
	return d, nil
}

// openPlace opens a directory for temporary files, and refuses one that others can exchange (trust.ErrOthers). For ""
// that is TMPDIR; where others can, /tmp. What lies below a directory of a group's is refused only as the system's: any
// other was chosen for what is kept there (trust.Data).
func openPlace(parent string) (*Dir, error) {
	if parent == "" {
		return firstPlace(os.TempDir(), "/tmp")
	}
	d, err := trusted(parent, trust.Data)
	return d, othersHint(err)
}

func firstPlace(places ...string) (*Dir, error) {
	var first error
	for _, place := range places {
		abs, err := filepath.Abs(place)
		if err != nil {
			return nil, err
		}
		d, err := trusted(abs, trust.Code)
		if first == nil {
			first = err
		}
		if !errors.Is(err, trust.ErrOthers) && !errors.Is(err, ErrForeign) {
			return d, err
		}
	}
	return nil, remedy.Add(first, "set TMPDIR to a directory of your own, below directories that nobody else can write")
}

// trusted is Open, then a look at the way there: before, another user could still make what is missing on it.
func trusted(dir string, level trust.Level) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d, err := Open(dir)
	if err != nil {
		return nil, err
	}
	if err := trust.Place(abs, level); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

func othersHint(err error) error {
	if errors.Is(err, trust.ErrOthers) {
		return remedy.Add(err, "name a directory of your own, below directories that nobody else can write")
	}
	return err
}

// Make opens a directory, and makes it and those above it, 0700, if they are not there.
func Make(dir string) (*Dir, error) { return MakeAs(dir, dirMode) }

// MakeAs is Make with a mode, less what the umask takes away.
func MakeAs(dir string, mode uint32) (*Dir, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	d, err := makePath(abs, mode)
	if err == nil {
		d.path = dir
	}
	return d, err
}

func makePath(abs string, mode uint32) (*Dir, error) {
	d, err := Open(abs)
	if !errors.Is(err, fs.ErrNotExist) || abs == "/" {
		return d, err
	}
	up, missing := makePath(filepath.Dir(abs), mode)
	if missing != nil {
		return nil, missing
	}
	defer up.Close()
	if made := up.mkdir(filepath.Base(abs), mode); made != nil && !errors.Is(made, fs.ErrExist) {
		return nil, made
	} else if made != nil {
		if _, there := up.Lstat(filepath.Base(abs)); there == nil { // a link to nowhere, or somebody was faster
			return Open(abs)
		}
		return nil, made
	}
	return up.Sub(filepath.Base(abs))
}

// Temp makes a directory that is new, ours and 0700, below a directory; "" is the system's temporary one. Discard
// removes it. Nobody else can exchange it for another one, so that code which takes no descriptor can use its path.
func Temp(parent, prefix string) (*Dir, error) {
	up, err := openPlace(parent)
	if err != nil {
		return nil, err
	}
	d, err := up.Temp(prefix)
	if err != nil {
		up.Close()
		return nil, err
	}
	d.owns = true
	return d, nil
}

// tries is how many random names are tried: of 2^60 one that is taken is no accident.
const tries = 100

func randomName(prefix string) string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand
	n := uint64(0)
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return prefix + strconv.FormatUint(n, 36)
}

// Temp makes a directory of a name that nobody can foresee; d stays open until it is discarded.
func (d *Dir) Temp(prefix string) (*Dir, error) {
	for range tries {
		name := randomName(prefix)
		err := d.Mkdir(name)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		made, err := d.Sub(name)
		if err != nil {
			return nil, err
		}
		made.up = d
		if err := made.ours(); err != nil {
			made.Close()
			return nil, err
		}
		return made, nil
	}
	return nil, d.fail("make", prefix+"*", fs.ErrExist)
}

// Owner is the uid that the directory belongs to.
func (d *Dir) Owner() (uid uint32, err error) {
	st, err := d.stat()
	return st.Uid, d.fail("stat", ".", err)
}

// ours refuses a directory that was exchanged between its making and its opening.
func (d *Dir) ours() error {
	st, err := d.stat()
	if err == nil && int(st.Uid) != os.Geteuid() {
		err = fmt.Errorf("%w: it belongs to uid %d", ErrRefused, st.Uid)
	}
	if err != nil {
		return d.fail("open", ".", err)
	}
	return nil
}

// Private makes sure that the directory is ours, and that nobody else may enter it.
func (d *Dir) Private() error {
	if err := d.ours(); err != nil {
		return err
	}
	return d.exactly(dirMode)
}

// exactly gives the directory a mode, whatever the umask has removed.
func (d *Dir) exactly(mode uint32) error {
	st, err := d.stat()
	if err == nil && st.Mode&0o777 != mode {
		err = unix.Chmod(d.FD(), mode) // fchmod(2) takes no O_PATH
	}
	if err != nil {
		return d.fail("chmod", ".", err)
	}
	return nil
}

func (d *Dir) stat() (st unix.Stat_t, err error) {
	err = unix.Fstat(d.fd(), &st)
	return st, err
}

func (d *Dir) fd() int { return int(d.f.Fd()) }

// Path is the directory's path as it was opened. What lies there may be another directory by now.
func (d *Dir) Path() string { return d.path }

// FD is a path that leads to this very directory, for code that takes no descriptor. It ends with Close.
func (d *Dir) FD() string { return "/proc/self/fd/" + strconv.Itoa(d.fd()) }

// Close closes the directory.
func (d *Dir) Close() error {
	if d.owns {
		_ = d.up.Close()
	}
	return d.f.Close()
}

// Discard empties a temporary directory, removes and closes it.
func (d *Dir) Discard() error {
	err := d.Empty()
	if d.up != nil {
		err = errors.Join(err, ignoreMissing(d.up.fail("remove", filepath.Base(d.path),
			unix.Unlinkat(d.up.fd(), filepath.Base(d.path), unix.AT_REMOVEDIR))))
	}
	return errors.Join(err, d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// fail says where an operation failed; nil stays nil.
func (d *Dir) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: filepath.Join(d.path, filepath.FromSlash(name)), Err: err}
}

// below says that a name is one of something below a directory. It need not be UTF-8: a user's file may have any name.
func below(name string) bool {
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	return true
}

// parent opens the directory that holds the last part of a name. No part is a link, "." or "..": the names of a
// descriptor's own directory, one after the other, cannot leave it.
func (d *Dir) parent(name string) (fd int, base string, done func(), err error) {
	if !below(name) {
		return -1, "", nil, fmt.Errorf("%w: no name below a directory", ErrRefused)
	}
	parts := strings.Split(name, "/")
	fd, done = d.fd(), func() {}
	for _, part := range parts[:len(parts)-1] {
		next, err := openDir(fd, part)
		done()
		if err != nil {
			return -1, "", nil, err
		}
		fd, done = next, func() { unix.Close(next) }
	}
	return fd, parts[len(parts)-1], done, nil
}

// openDir opens a directory that is no link.
func openDir(at int, name string) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return -1, unlike(at, name, fs.ModeDir, fmt.Errorf("%w: %s was a link a moment ago", ErrRefused, name))
	}
	return fd, err
}

// again repeats a call that a signal has interrupted.
func again(call func() (int, error)) (fd int, err error) {
	for {
		if fd, err = call(); !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

var kinds = map[fs.FileMode]string{0: "a file", fs.ModeDir: "a directory", fs.ModeSymlink: "a link",
	fs.ModeNamedPipe: "a named pipe", fs.ModeSocket: "a socket", fs.ModeDevice: "a device",
	fs.ModeDevice | fs.ModeCharDevice: "a device"}

// Kind is what a mode's file is called in messages.
func Kind(mode fs.FileMode) string { return kinds[mode.Type()] }

// unlike says what lies at a name in place of what memgauge makes.
func unlike(at int, name string, want fs.FileMode, otherwise error) error {
	i, err := lstat(at, name)
	if err != nil || i.Mode.Type() == want {
		return otherwise
	}
	err = fmt.Errorf("%w: %s is %s, where memgauge makes %s", ErrRefused, name, Kind(i.Mode), Kind(want))
	if i.Mode.Type() == fs.ModeSymlink {
		return remedy.Add(err, "no link is followed there: remove it, and mount what lies elsewhere instead")
	}
	return err
}

// Info is what is known of a file.
type Info struct {
	Name     string // its last part
	Mode     fs.FileMode
	Size     int64
	Modified time.Time
	UID      uint32
	Links    uint64 // names that it has
}

func lstat(at int, name string) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return Info{}, err
	}
	return infoOf(name, &st), nil
}

func infoOf(name string, st *unix.Stat_t) Info {
	mode := fs.FileMode(st.Mode & 0o777)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		mode |= fs.ModeDir
	case unix.S_IFLNK:
		mode |= fs.ModeSymlink
	case unix.S_IFIFO:
		mode |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		mode |= fs.ModeSocket
	case unix.S_IFCHR:
		mode |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		mode |= fs.ModeDevice
	}
	return Info{Name: name, Mode: mode, Size: st.Size, Modified: time.Unix(st.Mtim.Unix()), UID: st.Uid,
		Links: uint64(st.Nlink)} //nolint:unconvert // 32 bits on arm64
}

// Lstat tells of what lies at a name.
func (d *Dir) Lstat(name string) (Info, error) {
	at, base, done, err := d.parent(name)
	if err != nil {
		return Info{}, d.fail("lstat", name, err)
	}
	defer done()
	i, err := lstat(at, base)
	return i, d.fail("lstat", name, err)
}

// Sub opens a directory below.
func (d *Dir) Sub(name string) (*Dir, error) {
	at, base, done, err := d.parent(name)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	defer done()
	fd, err := openDir(at, base)
	if err != nil {
		return nil, d.fail("open", name, err)
	}
	full := filepath.Join(d.path, filepath.FromSlash(name))
	return &Dir{f: os.NewFile(uintptr(fd), full), path: full}, nil
}

// openFile opens a regular file that is no link. A named pipe neither blocks nor is taken for a file.
func openFile(at int, name string, flags int) (int, error) {
	return openAs(at, name, flags, fileMode)
}

func openAs(at int, name string, flags int, mode uint32) (int, error) {
	fd, err := again(func() (int, error) {
		return unix.Openat(at, name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, mode)
	})
	if err != nil {
		return -1, unlike(at, name, 0, err)
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil {
		err = checkFile(infoOf(name, &st), flags)
	}
	if err == nil && flags&unix.O_EXCL != 0 && mode == fileMode && st.Mode&0o777 != mode {
		err = unix.Fchmod(fd, fileMode) // whatever the umask has removed
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkFile refuses what is no file, and for writing what another user has, or what has a name elsewhere.
func checkFile(i Info, flags int) error {
	switch {
	case !i.Mode.IsRegular():
		return fmt.Errorf("%w: %s is %s, where memgauge makes a file", ErrRefused, i.Name, Kind(i.Mode))
	case flags&unix.O_ACCMODE == unix.O_RDONLY:
	case int(i.UID) != os.Geteuid():
		return fmt.Errorf("%w: %s belongs to uid %d", ErrRefused, i.Name, i.UID)
	case i.Links > 1:
		return fmt.Errorf("%w: %s has %d names, and one of them may be elsewhere", ErrRefused, i.Name, i.Links)
	}
	return nil
}

// Open opens a file for reading.
func (d *Dir) Open(name string) (*os.File, error) {
	return d.open(name, "open", func(at int, base string) (int, error) {
		return openFile(at, base, unix.O_RDONLY)
	})
}

func (d *Dir) open(name, op string, how func(at int, base string) (int, error)) (*os.File, error) {
	at, base, done, err := d.parent(name)
	if err != nil {
		return nil, d.fail(op, name, err)
	}
	defer done()
	fd, err := how(at, base)
	if err != nil {
		return nil, d.fail(op, name, err)
	}
	return os.NewFile(uintptr(fd), filepath.Join(d.path, filepath.FromSlash(name))), nil
}

// ReadFile reads a file of at most so many bytes.
func (d *Dir) ReadFile(name string, most int64) ([]byte, error) {
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	if err != nil {
		return nil, d.fail("read", name, err)
	}
	return text, nil
}

// Create makes a file that is not there yet, 0600, for reading and writing.
func (d *Dir) Create(name string) (*os.File, error) {
	return d.open(name, "create", func(at int, base string) (int, error) {
		return openFile(at, base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL)
	})
}

// CreateAs is Create with a mode, less what the umask takes away.
func (d *Dir) CreateAs(name string, mode uint32) (*os.File, error) {
	return d.open(name, "create", func(at int, base string) (int, error) {
		return openAs(at, base, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, mode)
	})
}

// Edit opens a file for reading and writing, and makes it, 0600, if it is not there.
func (d *Dir) Edit(name string) (*os.File, error) { return d.edit(name, unix.O_RDWR) }

// Append is Edit for a file that grows at its end.
func (d *Dir) Append(name string) (*os.File, error) { return d.edit(name, unix.O_RDWR|unix.O_APPEND) }

func (d *Dir) edit(name string, flags int) (*os.File, error) {
	return d.open(name, "open", func(at int, base string) (fd int, err error) {
		for range tries { // others may make and remove it meanwhile
			if fd, err = openFile(at, base, flags); !errors.Is(err, fs.ErrNotExist) {
				return fd, err
			}
			if fd, err = openFile(at, base, flags|unix.O_CREAT|unix.O_EXCL); !errors.Is(err, fs.ErrExist) {
				return fd, err
			}
		}
		return -1, err
	})
}

// Mkdir makes a directory, 0700.
func (d *Dir) Mkdir(name string) error { return d.mkdir(name, dirMode) }

// MkdirAs is Mkdir with a mode, less what the umask takes away.
func (d *Dir) MkdirAs(name string, mode uint32) error { return d.mkdir(name, mode) }

func (d *Dir) mkdir(name string, mode uint32) error {
	at, base, done, err := d.parent(name)
	if err != nil {
		return d.fail("make", name, err)
	}
	defer done()
	return d.fail("make", name, mkdir(at, base, mode))
}

func mkdir(at int, name string, mode uint32) error {
	if err := unix.Mkdirat(at, name, mode); err != nil || mode != dirMode {
		return err
	}
	i, err := lstat(at, name)
	if err != nil || i.Mode.Perm() == dirMode || !i.Mode.IsDir() {
		return err
	}
	fd, err := openDir(at, name)
	if err != nil {
		return err
	}
	d := &Dir{f: os.NewFile(uintptr(fd), name), path: name}
	defer d.Close()
	return d.exactly(dirMode)
}

// MkdirAll makes a directory and those above it that are not there.
func (d *Dir) MkdirAll(name string) error {
	at := ""
	for part := range strings.SplitSeq(name, "/") {
		at = path.Join(at, part)
		if err := d.Mkdir(at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	sub, err := d.Sub(name) // what is there is a directory
	if err != nil {
		return err
	}
	return sub.Close()
}
