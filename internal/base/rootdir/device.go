package rootdir

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/trust"
)

// Device opens a pipe or device that a user has named, for writing. A pipe that nobody reads is an error, not a wait.
// Of links only those of /proc are followed, to what has no path.
func (d *Dir) Device(name string) (*os.File, error) { return d.open(name, "open", openDevice) }

func openDevice(at int, name string) (int, error) {
	flags := unix.O_WRONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC
	if !ofProc(at) {
		flags |= unix.O_NOFOLLOW
	}
	fd, err := again(func() (int, error) { return unix.Openat(at, name, flags, 0) })
	if err != nil {
		return -1, err
	}
	if err := checkDevice(at, fd, name); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// checkDevice looks at what was opened, whatever has that name by now, and takes its O_NONBLOCK away unless it is a
// pipe, which can be polled.
func checkDevice(at, fd int, name string) error {
	var st, dir unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if err := unix.Fstat(at, &dir); err != nil {
		return err
	}
	switch kind := st.Mode & unix.S_IFMT; {
	case kind == unix.S_IFREG:
		return fmt.Errorf("%w: %s was no file a moment ago", ErrRefused, name)
	case dir.Mode&(unix.S_ISVTX|unix.S_IWOTH) != 0 && trust.Foreign(st.Uid): // such as /tmp
		return remedy.Add(fmt.Errorf("%w: %s is %s of uid %d, who would get what is written", ErrRefused, name,
			Kind(infoOf(name, &st).Mode), st.Uid), "name another file")
	case kind == unix.S_IFIFO:
		return nil
	}
	return unix.SetNonblock(fd, false)
}
