package attach

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// folder is a directory for temporary files under the target's root, which may differ from ours. Names are resolved
// under that root, so that no link in it leads outside.
type folder struct {
	path   string // as the target sees it
	parent int
	name   string
	fd     int
	keep   bool
}

// newFolder makes it where temporary files belong.
func newFolder(root string) (*folder, error) {
	rootFD, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	defer unix.Close(rootFD)
	var errs []error
	for _, dir := range []string{"/tmp", "/var/tmp", "/dev/shm"} {
		f := &folder{name: "memgauge-" + rand.Text()}
		f.path = dir + "/" + f.name
		if err = f.make(rootFD, dir); err == nil {
			return f, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", f.path, err))
	}
	return nil, errors.Join(errs...)
}

func (f *folder) make(rootFD int, dir string) (err error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT}
	if f.parent, err = unix.Openat2(rootFD, dir, &how); err != nil {
		return err
	}
	if err = unix.Mkdirat(f.parent, f.name, 0o700); err == nil {
		f.fd, err = unix.Openat(f.parent, f.name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		unix.Close(f.parent)
	}
	return err
}

// fill writes a new file. With a pid, the file and the folder then belong to that process's user.
func (f *folder) fill(name, text string, pid int) error {
	fd, err := unix.Openat(f.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	if _, err := file.WriteString(text); err != nil || pid == 0 {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/task", pid), &st); err != nil {
		return err
	}
	if os.Geteuid() == int(st.Uid) {
		return nil
	}
	return errors.Join(unix.Fchown(fd, int(st.Uid), int(st.Gid)), unix.Fchown(f.fd, int(st.Uid), int(st.Gid)))
}

func (f *folder) read(name string) (string, error) {
	fd, err := unix.Openat(f.fd, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	file := os.NewFile(uintptr(fd), name)
	defer file.Close()
	b, err := io.ReadAll(io.LimitReader(file, MaxValue+64))
	return string(b), err
}

// remove removes everything, unless somebody else will.
func (f *folder) remove() {
	if !f.keep {
		for _, name := range []string{"run.py", "claim", "part", "out"} {
			_ = unix.Unlinkat(f.fd, name, 0)
		}
		_ = unix.Unlinkat(f.parent, f.name, unix.AT_REMOVEDIR)
	}
	unix.Close(f.fd)
	unix.Close(f.parent)
}
