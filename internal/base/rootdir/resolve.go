package rootdir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/trust"
)

// maxLinks is how many links are followed on one path, as the kernel does (path_resolution(7)).
const maxLinks = 40

// ErrForeign means that a link on the way to a directory belongs to another user.
var ErrForeign = errors.New("belongs to another user")

// resolve opens the directory at an absolute path, part by part, and follows the links that followable allows.
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
	if ofProc(fd) {
		fd, err := again(func() (int, error) {
			return unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		})
		return fd, "", err
	}
	if err := followable(at, part, st.Uid); err != nil {
		return -1, "", err
	}
	target, err = leads(fd)
	return -1, target, err
}

// leads is where a link leads that was opened: its name may be another one's by now.
func leads(fd int) (string, error) {
	text := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(fd, "", text) // since Linux 2.6.39
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(text[:max(n, 0)]), err
}

// followable refuses a link that somebody else can have put there, and can aim anew at any moment. Root follows only
// its own. In a directory where everybody may put one, such as /tmp, all follow only their own and those of the
// directory's owner: the kernel's rule where fs.protected_symlinks is set (may_follow_link in fs/namei.c), but without
// the sticky bit too.
func followable(at int, name string, uid uint32) error {
	foreign := os.Geteuid() == 0 && trust.Foreign(uid)
	if !foreign && int(uid) != os.Geteuid() {
		var dir unix.Stat_t
		if err := unix.Fstat(at, &dir); err != nil {
			return err
		}
		foreign = dir.Mode&unix.S_IWOTH != 0 && uid != dir.Uid
	}
	if foreign {
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
		target, err := d.namedLink(name)
		if err != nil {
			d.Close()
			return nil, "", &fs.PathError{Op: "open", Path: path, Err: err}
		}
		if target == "" {
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

// namedLink is where the link of a name leads. It is empty for all else, also for what can't be looked at, or is no
// name: its use will say so.
func (d *Dir) namedLink(name string) (target string, err error) {
	i, err := d.Lstat(name)
	if err != nil || i.Mode.Type() != fs.ModeSymlink {
		return "", nil
	}
	fd, err := again(func() (int, error) {
		return unix.Openat(d.fd(), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return "", err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFLNK {
		return "", fmt.Errorf("%w: %s was a link a moment ago", ErrRefused, name)
	}
	proc := ofProc(fd)
	if !proc {
		if err := followable(d.fd(), name, st.Uid); err != nil {
			return "", err
		}
	}
	target, err = leads(fd)
	if err == nil && proc && !filepath.IsAbs(target) {
		return "", nil
	}
	return target, err
}

// ofProc recognises what lies in /proc, where nobody can make a link.
func ofProc(fd int) bool {
	var in unix.Statfs_t
	return unix.Fstatfs(fd, &in) == nil && in.Type == unix.PROC_SUPER_MAGIC
}
