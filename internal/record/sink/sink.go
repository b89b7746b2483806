// Package sink owns the output of commands. It guarantees that a command that fails has printed nothing, and that a
// file is either replaced as a whole or left as it is.
package sink

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Sink takes a command's output and shows none of it before commit, so that a command that fails has printed nothing.
type Sink interface {
	io.Writer
	Commit() error
	Discard() // does nothing after commit
	Reset()   // forgets what was written
}

// MemorySpool is how many bytes of output are kept in memory: 100,000 rows of a typical result. The rest goes to a
// file.
const MemorySpool = 8 << 20

// Spool keeps output until Commit writes it to To.
type Spool struct {
	To   io.Writer
	head []byte
	Tail *os.File // without a name, so that it goes with the process however that ends
}

// Write keeps the output: the first MemorySpool bytes in memory, all else in a temporary file.
func (s *Spool) Write(p []byte) (int, error) {
	if s.Tail == nil && len(s.head)+len(p) <= MemorySpool {
		s.head = append(s.head, p...)
		return len(p), nil
	}
	if s.Tail == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	return s.Tail.Write(p)
}

func (s *Spool) open() error {
	f, err := rootdir.Anonymous("memgauge-")
	if err != nil {
		return fmt.Errorf("keep the output: %w", err)
	}
	s.Tail = f
	return nil
}

// Commit copies the whole output to s.To, and discards it.
func (s *Spool) Commit() error {
	defer s.Discard()
	_, err := s.To.Write(s.head)
	if err == nil && s.Tail != nil {
		if _, err = s.Tail.Seek(0, io.SeekStart); err == nil {
			_, err = io.Copy(s.To, s.Tail)
		}
	}
	if err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

// Discard drops the output. It does nothing after Commit.
func (s *Spool) Discard() {
	if s.Tail != nil {
		s.Tail.Close()
		s.Tail = nil
	}
	s.head = nil
}

// Reset forgets the output.
func (s *Spool) Reset() { s.Discard() }

// replacement is a file that takes the place of another in one step.
type replacement struct {
	*os.File
	dir  *rootdir.Dir // stays the one that was looked at, whatever its path leads to at the end
	temp string
	name string
	path string // for messages

	kept error // why a part that was to be forgotten may still be there
}

func (r *replacement) Reset() {
	_, err := r.Seek(0, io.SeekStart)
	r.kept = errors.Join(r.kept, err, r.Truncate(0))
}

func (r *replacement) Commit() error {
	err := r.kept
	if err == nil {
		err = r.Sync() // else a crash soon after may leave the new name with no bytes behind it
	}
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = r.dir.Move(r.temp, r.dir, r.name)
	}
	if err != nil {
		_ = r.dir.Remove(r.temp)
		err = fmt.Errorf("write %s: %w", r.path, Cause(err))
	}
	r.dir.Close()
	r.File = nil
	return err
}

func (r *replacement) Discard() {
	if r.File != nil {
		r.Close()
		_ = r.dir.Remove(r.temp)
		r.dir.Close()
		r.File = nil
	}
}

// device is a file that can't be replaced, such as /dev/stdout or a named pipe: the output is written to it at Commit.
type device struct {
	Spool
	file *os.File
}

func (d *device) Commit() error {
	err := d.Spool.Commit()
	if cerr := d.file.Close(); err == nil {
		err = cerr
	}
	return err
}

func (d *device) Discard() {
	d.Spool.Discard()
	d.file.Close()
}

// Create prepares a file to be written. If it can't be written, Create returns the error now, before any work. A link
// stays one, and what it points to is replaced, unless another user can have put it there.
func Create(path string) (Sink, error) {
	dir, name, err := rootdir.Named(path)
	var s Sink
	if err == nil {
		s, err = create(path, dir, name, openDevice)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, Cause(err))
	}
	return s, nil
}

// create closes the directory unless the sink has it. What lies at the name and can't be replaced is for other to open.
func create(path string, dir *rootdir.Dir, name string, other func(*rootdir.Dir, string) (Sink, error)) (_ Sink,
	err error) {
	var r *replacement
	defer func() {
		if r == nil {
			dir.Close()
		}
	}()
	if err := session.MayReplace(filepath.Join(dir.Path(), name)); err != nil {
		return nil, err
	}
	st, err := dir.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if r, err = createBeside(path, dir, name, 0o666); err != nil {
			return nil, err
		}
		return r, nil
	case errors.Is(err, rootdir.ErrRefused): // "." or "/"
		return nil, syscall.EISDIR
	case err != nil:
		return nil, err
	case st.Mode.IsDir():
		return nil, syscall.EISDIR
	case !st.Mode.IsRegular():
		return other(dir, name)
	}
	// the rename would get round a file's own protection
	if err := unix.Access(filepath.Join(dir.FD(), name), unix.W_OK); err != nil {
		return nil, err
	}
	if int(st.UID) != os.Geteuid() { // its owner does not choose who may read what we write
		if r, err = createBeside(path, dir, name, 0o666); err != nil {
			return nil, err
		}
		return r, nil
	}
	if r, err = createBeside(path, dir, name, 0o600); err != nil {
		return nil, err
	}
	if err := r.Chmod(st.Mode.Perm()); err != nil {
		r.Discard()
		return nil, err
	}
	return r, nil
}

// CreateNamed is create for a file whose name we chose. A link of that name was not put there for us: who runs a
// command in a directory that others can write to would have what it points to replaced.
func CreateNamed(path string) (Sink, error) {
	dir, err := rootdir.Open(filepath.Dir(path))
	var s Sink
	if err == nil {
		s, err = create(path, dir, filepath.Base(path), refuseOther)
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, Cause(err))
	}
	return s, nil
}

// Rewrite is create for a file that is there, and of which nothing changes but its bytes: mode, owner and group stay. A
// link of its name is followed only if through says so.
func Rewrite(path string, through bool) (Sink, error) {
	name := filepath.Base(path)
	var dir *rootdir.Dir
	var err error
	if through {
		dir, name, err = rootdir.Named(path)
	} else {
		dir, err = rootdir.Open(filepath.Dir(path))
	}
	var s Sink
	if err == nil {
		s, err = create(path, dir, name, func(*rootdir.Dir, string) (Sink, error) {
			return nil, errors.New("it is a link, or no regular file")
		})
	}
	if err == nil {
		if err = s.(*replacement).belike(); err != nil {
			s.Discard()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", path, Cause(err))
	}
	return s, nil
}

// belike gives the new file the mode, owner and group of the one that it replaces.
func (r *replacement) belike() error {
	file, err := r.dir.Open(r.name)
	if err != nil {
		return err
	}
	defer file.Close()
	var was, is unix.Stat_t
	if err := errors.Join(unix.Fstat(int(file.Fd()), &was), unix.Fstat(int(r.Fd()), &is)); err != nil {
		return err
	}
	if was.Uid != is.Uid || was.Gid != is.Gid {
		if err := r.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return err
		}
	}
	return r.Chmod(fs.FileMode(was.Mode & 0o777))
}

func refuseOther(*rootdir.Dir, string) (Sink, error) {
	return nil, remedy.Add(errors.New("a link, or no file at all, has the name of the default output"),
		"name the file: --output FILE")
}

// CreateFrom is create for what is made of other files. It does not replace one of them: less is written than was read.
func CreateFrom(path string, sources ...string) (Sink, error) {
	out, err := os.Stat(path)
	for _, source := range sources {
		if in, inErr := os.Stat(source); err == nil && inErr == nil && out.Mode().IsRegular() && os.SameFile(in, out) {
			return nil, remedy.Add(fmt.Errorf("write %s: it is the file that is read", path), "name another file")
		}
	}
	return Create(path)
}

// Gzip has a file written, through gzip where its name ends in .gz.
func Gzip(name string, w io.Writer, write func(io.Writer) error) error {
	if !strings.HasSuffix(strings.ToLower(name), ".gz") {
		return write(w)
	}
	z := gzip.NewWriter(w)
	if err := write(z); err != nil {
		return err
	}
	return z.Close()
}

// createBeside makes the new file in the same directory: a rename works only within a file system.
func createBeside(path string, dir *rootdir.Dir, name string, perm uint32) (*replacement, error) {
	temp := ".memgauge-" + strconv.FormatUint(rand.Uint64(), 36)
	f, err := dir.CreateAs(temp, perm)
	if err != nil {
		return nil, err
	}
	return &replacement{File: f, dir: dir, temp: temp, name: name, path: path}, nil
}

func openDevice(dir *rootdir.Dir, name string) (Sink, error) {
	f, err := dir.Device(name)
	if err != nil {
		return nil, err
	}
	d := &device{file: f}
	d.To = f
	return d, nil
}

// Cause drops the operation and the name that os puts around an error; we say our own.
func Cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}
