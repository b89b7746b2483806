package cell

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fence is what a cell may not pass: Landlock's rules (Documentation/userspace-api/landlock.rst), or
// where the kernel has none and we are root, a tree of files that can't be written. No child makes a socket, so the
// network and the sockets of other programs are out of reach either way.
type fence struct {
	Read  []string
	Write string // a directory

	Memory, File uint64 // bytes
	Parent       int    // the PID with which the cell ends
}

// fenceKey is set in the environment of a cell that is not behind its fence yet.
const fenceKey = "MEMGAUGE_CELL"

func (f fence) text() string {
	b, _ := json.Marshal(f) // strings alone
	return string(b)
}

// confine puts this process behind its fence, which a thread has for itself alone and passes on to what it starts: the
// one that has raised it executes the program anew, which ends all others.
func confine() error {
	text := os.Getenv(fenceKey)
	if text == "" {
		return nil // behind it already
	}
	var f fence
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return fmt.Errorf("read what a cell may do: %w", err)
	}
	if err := f.bound(); err != nil {
		return err
	}
	runtime.LockOSThread()
	if err := f.endWithParent(); err != nil {
		return err
	}
	if err := f.raise(); err != nil {
		return err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, fenceKey+"=") })
	return fmt.Errorf("start behind the fence: %w", unix.Exec("/proc/self/exe", os.Args, env))
}

// endWithParent has the kernel end this process with the one that started it. That is an attribute of a thread: what
// the parent asked for at the start was the first one's (PR_SET_PDEATHSIG in prctl(2)), and it is this one that lives
// on.
func (f fence) endWithParent() error {
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("end with the parent: %w", err)
	}
	if os.Getppid() != f.Parent { // it has ended already
		return errors.New("end with the parent: it has ended")
	}
	return nil
}

// Rights over files by the first version of Landlock's ABI that knows them.
const (
	rightsV1 = unix.LANDLOCK_ACCESS_FS_MAKE_SYM<<1 - 1
	rightsV2 = unix.LANDLOCK_ACCESS_FS_REFER
	rightsV3 = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	rightsV5 = unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

	ofFile = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		rightsV3 | rightsV5
	reading = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	running = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	writing = reading | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | rightsV3
)

// surroundings are where libraries ask how large the machine is (DuckDB ends the process if it can't read its cgroup),
// and which time zone it has. Of other processes /proc shows what it shows to everybody: a process behind Landlock's
// rules may not look into one that is not (security/landlock/task.c), as into its environment.
var surroundings = []string{"/proc", "/sys/fs/cgroup", "/sys/devices/system/cpu", "/etc/localtime",
	"/usr/share/zoneinfo"}

// Landlock is the version of the kernel's Landlock; 0 where it has none, or it is switched off.
func Landlock() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// landlockVersion is a variable for tests.
var landlockVersion = Landlock

// raise puts the calling thread behind the fence for good.
func (f fence) raise() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new rights: %w", err)
	}
	var err error
	if version := landlockVersion(); version > 0 {
		err = f.landlock(version)
	} else if os.Geteuid() == 0 {
		err = f.mount()
	}
	if err == nil {
		err = dropRights()
	}
	if err == nil {
		err = noOthers()
	}
	return err
}

// landlock lets the thread run this program, read what the fence leaves open, and write the scratch directory.
func (f fence) landlock(version int) error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: rightsV1}
	size := unsafe.Sizeof(attr.Handled_access_fs)
	attr.Handled_access_fs |= since(version, 2, rightsV2) | since(version, 3, rightsV3) | since(version, 5, rightsV5)
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		size += unsafe.Sizeof(attr.Handled_access_net)
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
		size += unsafe.Sizeof(attr.Scoped)
	}
	rules, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock's rules: %w", errno)
	}
	defer unix.Close(int(rules))
	program, err := mapped()
	if err != nil {
		return err
	}
	allow := func(paths []string, rights uint64) {
		for _, path := range paths {
			err = errors.Join(err, permit(int(rules), path, rights&attr.Handled_access_fs))
		}
	}
	allow(program, running)
	allow(surroundings, unix.LANDLOCK_ACCESS_FS_READ_FILE)
	allow(f.Read, reading)
	allow([]string{f.Write}, writing)
	if err != nil {
		return err
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0, 0); errno != 0 {
		return fmt.Errorf("keep to Landlock's rules: %w", errno)
	}
	return nil
}

func since(version, first int, rights uint64) uint64 {
	if version < first {
		return 0
	}
	return rights
}

// permit gives rights over a file, or over all below a directory. What is not there needs none.
func permit(rules int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open %s to a cell: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("open %s to a cell: %w", path, err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= ofFile
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(rules), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("open %s to a cell: %w", path, errno)
	}
	return nil
}

// mapped lists the files that this process runs: the program, its libraries, and their loader. A cell runs the same.
func mapped() ([]string, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil, fmt.Errorf("find the program's own files: %w", err)
	}
	defer f.Close()
	list := []string{"/proc/self/exe", "/etc/ld.so.cache"}
	for s := bufio.NewScanner(f); s.Scan(); {
		// address, rights, offset, device, inode, path (proc_pid_maps(5))
		fields := strings.Fields(s.Text())
		if len(fields) > 5 && fields[1][2] == 'x' && fields[5][0] == '/' {
			_, path, _ := strings.Cut(s.Text(), fields[4])
			list = append(list, strings.TrimSpace(path))
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// mount makes all files read-only for the thread but those of the scratch directory, in a mount namespace of its own.
func (f fence) mount() error {
	err := unix.Unshare(unix.CLONE_NEWNS) // and the thread's working directory, which it implies (unshare(2))
	if err == nil {
		err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	}
	write := f.Write
	if err == nil && strings.HasPrefix(write, descriptors) {
		write, err = os.Readlink(write)
	}
	if err == nil {
		err = unix.Mount(write, write, "", unix.MS_BIND, "")
	}
	if err == nil {
		err = unix.MountSetattr(unix.AT_FDCWD, "/", unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err == nil {
		err = unix.MountSetattr(unix.AT_FDCWD, write, 0, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_RDONLY})
	}
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSYS) { // root of a container; before Linux 5.12
		return nil
	}
	if err != nil {
		return fmt.Errorf("make the files read-only for a cell: %w", err)
	}
	return f.renew(write)
}

const descriptors = "/proc/self/fd/"

// renew lets the descriptor of the writable directory lead to what was mounted there, if that is the same directory
// still: otherwise it was swapped meanwhile.
func (f fence) renew(path string) error {
	number, ok := strings.CutPrefix(f.Write, descriptors)
	if !ok {
		return nil
	}
	old, err := strconv.Atoi(number)
	if err != nil {
		return fmt.Errorf("open %s to a cell: %w", f.Write, err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s to a cell: %w", path, err)
	}
	defer unix.Close(fd)
	var was, is unix.Stat_t
	err = errors.Join(unix.Fstat(old, &was), unix.Fstat(fd, &is))
	if err == nil && (was.Dev != is.Dev || was.Ino != is.Ino) {
		err = errors.New("it is another directory now")
	}
	if err == nil {
		err = unix.Dup3(fd, old, 0)
	}
	if err != nil {
		return fmt.Errorf("open %s to a cell: %w", path, err)
	}
	return nil
}
