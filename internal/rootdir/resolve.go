package rootdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/trust"
)

// maxLinks is how many links are followed on one path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// ErrForeign means that a link on the way to a directory belongs to another user.
var ErrForeign = errors.New("belongs to another user")

// resolve opens the directory at an absolute path, part by part. Root follows a link only if it is root's own: any
// other was put there by somebody who can aim it anew at any moment (a link in a home, or in /tmp).
func resolve(abs string) (int, error) {
	at, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	parts := strings.Split(abs, "/")
	for links := 0; err == nil && len(parts) > 0; {
		part := parts[0]
		parts = parts[1:]
		if part == "" || part == "." {
			continue
		}
		var next int
		var target string
		next, target, err = step(at, part)
		switch {
		case err != nil:
		case target == "":
			unix.Close(at)
			at = next
		case links == maxLinks:
			err = unix.ELOOP
		default:
			links++
			parts = append(strings.Split(target, "/"), parts...)
			if target[0] == '/' {
				unix.Close(at)
				at, err = unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			}
		}
	}
	if err != nil && at >= 0 {
		unix.Close(at)
	}
	if err != nil {
		return -1, err
	}
	return at, nil
}

// step opens one part of a path, or returns where a link leads. The kernel itself follows the links of /proc, which
// nobody can make.
func step(at int, part string) (fd int, target string, err error) {
	fd, err = again(func() (int, error) {
		return unix.Openat(at, part, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return -1, "", err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fd, "", nil
	}
	defer unix.Close(fd)
	if err != nil {
		return -1, "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return -1, "", unix.ENOTDIR
	}
	var in unix.Statfs_t
	if err := unix.Fstatfs(fd, &in); err == nil && in.Type == unix.PROC_SUPER_MAGIC {
		fd, err := again(func() (int, error) {
			return unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		return fd, "", err
	}
	if err := followable(part, st.Uid); err != nil {
		return -1, "", err
	}
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text) // of the link that was opened: since Linux 2.6.39
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	if err != nil {
		return -1, "", err
	}
	return -1, string(text[:n]), nil
}

// followable refuses root a link of another user's.
func followable(name string, uid uint32) error {
	if os.Geteuid() == 0 && trust.Foreign(uid) {
		return fmt.Errorf("%s is a link that %w, uid %d", name, ErrForeign, uid)
	}
	return nil
}

// Named opens the directory of a path that a user has named, and tells the name in it. A link of that name is followed
// as those on the way are, so that the name is not a link's; there may be nothing yet. Links of /proc to what has no
// path stay.
func Named(path string) (d *Dir, name string, err error) {
	for range maxLinks {
		if d, err = Open(filepath.Dir(path)); err != nil {
			return nil, "", err
		}
		name = filepath.Base(path)
		i, statErr := d.Lstat(name)
		if statErr != nil || i.Mode.Type() != fs.ModeSymlink {
			return d, name, nil // also for what can't be looked at, or is no name: its use will say so
		}
		var in unix.Statfs_t
		target, err := os.Readlink(filepath.Join(d.FD(), name))
		if err == nil {
			err = unix.Fstatfs(d.fd(), &in)
		}
		ofProc := in.Type == unix.PROC_SUPER_MAGIC
		if err == nil && !ofProc {
			err = followable(name, i.UID)
		}
		if err != nil {
			d.Close()
			return nil, "", &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if ofProc && !filepath.IsAbs(target) {
			return d, name, nil
		}
		d.Close()
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return nil, "", &fs.PathError{Op: "open", Path: path, Err: unix.ELOOP}
}
