package attach

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// folder is a directory for temporary files under the target's root, which may differ from ours. All that is done in it
// is done with the target's rights, so it belongs to the target's user. Names are resolved under that root, so that no
// link in it leads outside.
type folder struct {
	path   string // as the target sees it
	parent int
	name   string
	fd     int
	uid    int
	deputy *deputy
	keep   bool
}

// within resolves names in the folder: nothing that is mounted there, nor any link, is followed.
const within = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS

// newFolder makes it where temporary files belong.
func newFolder(pid int) (*folder, error) {
	// one process, even if its PID is used again
	proc, err := unix.Open(fmt.Sprintf("/proc/%d", pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/%d: %w", pid, err)
	}
	defer unix.Close(proc)
	// The root comes first, while we may still look into the target. A process whose user has mounted things in a
	// namespace of its own can't become root afterwards; one that began as a setuid program could have done it since.
	root, err := unix.Openat(proc, "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /proc/%d/root: %w", pid, err)
	}
	defer unix.Close(root)
	s, err := readStatus(fmt.Sprintf("/proc/self/fd/%d/status", proc))
	if err != nil {
		return nil, err
	}
	d, err := newDeputy(s)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		f := &folder{name: "memgauge-" + rand.Text(), uid: s.fsuid, deputy: d}
		f.path = dir + "/" + f.name
		if err = f.make(root, dir); err == nil {
			if err = f.enter(); err == nil {
				return f, nil
			}
		}
		errs = append(errs, fmt.Errorf("%s: %w", f.path, err))
	}
	d.end()
	return nil, errors.Join(errs...)
}

func (f *folder) make(root int, dir string) error {
	return f.deputy.do(func() (err error) {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
		if f.parent, err = unix.Openat2(root, dir, &how); err != nil {
			return err
		}
		if err = unix.Mkdirat(f.parent, f.name, 0o700); err != nil {
			unix.Close(f.parent)
		}
		return err
	})
}

// enter opens the folder, if it still is the one that was made. The target may have moved it, or mounted something on
// it.
func (f *folder) enter() error {
	err := f.deputy.do(func() (err error) {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: within}
		if f.fd, err = unix.Openat2(f.parent, f.name, &how); err == nil {
			if err = f.check(); err != nil {
				unix.Close(f.fd)
			}
		}
		if err != nil {
			_ = unix.Unlinkat(f.parent, f.name, unix.AT_REMOVEDIR)
		}
		return err
	})
	if err != nil {
		unix.Close(f.parent)
	}
	return err
}

func (f *folder) check() error {
	var st unix.Stat_t
	if err := unix.Fstat(f.fd, &st); err != nil {
		return err
	}
	if int(st.Uid) != f.uid || st.Mode&0o077 != 0 {
		return fmt.Errorf("it belongs to user %d and has mode %04o", st.Uid, st.Mode&0o7777)
	}
	return nil
}

// open opens a file of the folder.
func (f *folder) open(name string, flags, mode uint64) (*os.File, error) {
	var fd int
	err := f.deputy.do(func() (err error) {
		how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: within}
		fd, err = unix.Openat2(f.fd, name, &how)
		return err
	})
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fill writes a new file.
func (f *folder) fill(name, text string) error {
	file, err := f.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = file.WriteString(text)
	return err
}

func (f *folder) read(name string) (string, error) {
	file, err := f.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0) // the target may have put a pipe there
	if err != nil {
		return "", err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, unix.EINVAL)
	}
	b, err := io.ReadAll(io.LimitReader(file, MaxValue+64))
	return string(b), err
}

// remove removes everything, unless somebody else will.
func (f *folder) remove() {
	if !f.keep {
		_ = f.deputy.do(func() error {
			for _, name := range []string{"run.py", "claim", "part", "out"} {
				_ = unix.Unlinkat(f.fd, name, 0)
			}
			return unix.Unlinkat(f.parent, f.name, unix.AT_REMOVEDIR)
		})
	}
	f.deputy.end()
	unix.Close(f.fd)
	unix.Close(f.parent)
}
