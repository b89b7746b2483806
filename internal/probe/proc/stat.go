package proc

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxStat bounds what is read of a stat file. Its 52 numbers and a 64-byte comm (workqueue threads; 16 for others) are
// at most about 1,100 bytes.
const maxStat = 4096

// ErrMalformed marks text whose form differs from what proc(5) describes.
var ErrMalformed = errors.New("malformed")

// FS is a proc file system, live or recorded.
type FS struct{ root string }

// New reads below root; for the machine itself that is "/proc".
func New(root string) FS { return FS{root} }

// Stat is what memgauge uses of /proc/PID/stat.
type Stat struct {
	PID     int
	PPID    int
	Comm    string
	State   byte   // R, S, D, T, t, Z, X, I …
	Threads int    // of the thread group
	Start   uint64 // clock ticks (1/100 s for every process that reads it, see USER_HZ) since boot
	Exiting bool   // its first thread is on its way out: PF_EXITING in include/linux/sched.h
}

// Stat reads /proc/PID/stat. procfs.Proc.Stat takes twice as long (31 against 16 µs, BenchmarkStat), since it scans all
// 52 fields by reflection, and this is read for every process of a job every second.
func (f FS) Stat(pid int) (Stat, error) {
	path := f.path(pid, "stat")
	file, err := os.Open(path)
	if err != nil {
		return Stat{}, err // os names the operation and the path
	}
	defer file.Close()
	var buf [maxStat]byte
	n, err := file.Read(buf[:]) // one read: the kernel makes the whole line at the moment of the read
	if err != nil {
		return Stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	s, err := parseStat(buf[:n])
	if err != nil {
		return Stat{}, fmt.Errorf("read %s: %w", path, err)
	}
	return s, nil
}

// StartTicks returns when a process started, in clock ticks since boot. Together with the PID it identifies a process
// for ever, unlike the PID alone.
func (f FS) StartTicks(pid int) (uint64, error) {
	s, err := f.Stat(pid)
	return s.Start, err
}

// Alive reports whether the process that had this PID and start still runs. If that can't be found out (an I/O error, a
// /proc that hides others), a process counts as alive: for a dead one, a file would be removed.
func (f FS) Alive(pid int, start uint64) bool {
	s, err := f.Stat(pid)
	if err != nil {
		return !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ESRCH)
	}
	return s.Start == start && !s.Dead()
}

// Dead: a zombie has released its memory and writes no more, unless only its first thread has ended (man 2
// pthread_exit, NOTES; fs/proc/array.c do_task_stat counts the threads that remain).
func (s Stat) Dead() bool {
	return s.State == 'X' || s.State == 'x' || s.State == 'Z' && s.Threads <= 1
}

// exiting is PF_EXITING.
const exiting = 4

// Dying reports whether a process was sent SIGKILL, or is on its way out: nothing of its own runs any more, though its
// sockets and locks may still be there. It is false where that can't be read.
func (f FS) Dying(pid int) bool {
	if stat, err := f.Stat(pid); err != nil || stat.Exiting || stat.Dead() {
		return err == nil
	}
	threads, err := filepath.Glob(f.path(pid, filepath.Join("task", "*", "status")))
	if err != nil {
		return false
	}
	for _, path := range threads {
		if text, err := os.ReadFile(path); err == nil && killed(text) {
			return true
		}
	}
	return false
}

// killed tells whether SIGKILL waits for a thread; it is sent to each (kernel/signal.c, complete_signal).
func killed(status []byte) bool {
	const sigkill = 1 << (syscall.SIGKILL - 1)
	_, rest, _ := bytes.Cut(status, []byte("\nSigPnd:"))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	pending, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 16, 64)
	return err == nil && pending&sigkill != 0
}

func (f FS) path(pid int, name string) string {
	return filepath.Join(f.root, strconv.Itoa(pid), name)
}

// Fields after the comm, counted from the state (field 3 in proc(5)).
const (
	fieldState   = 0
	fieldPPID    = 1
	fieldFlags   = 6
	fieldThreads = 17
	fieldStart   = 19
)

// parseStat reads "PID (COMM) STATE PPID …". The process chooses COMM, which may contain spaces and parentheses. No
// later field can contain a parenthesis, so the last ")" ends it.
func parseStat(line []byte) (Stat, error) {
	open, end := bytes.IndexByte(line, '('), bytes.LastIndexByte(line, ')')
	if open < 1 || end < open {
		return Stat{}, fmt.Errorf("%w: no command in parentheses", ErrMalformed)
	}
	s := Stat{Comm: string(line[open+1 : end])}
	fields := bytes.Fields(line[end+1:])
	if len(fields) <= fieldStart {
		return Stat{}, fmt.Errorf("%w: %d fields behind the command, want more than %d", ErrMalformed, len(fields),
			fieldStart)
	}
	if state := fields[fieldState]; len(state) != 1 ||
		!('A' <= state[0] && state[0] <= 'Z' || 'a' <= state[0] && state[0] <= 'z') {
		return Stat{}, fmt.Errorf("%w: state %q", ErrMalformed, fields[fieldState])
	}
	s.State = fields[fieldState][0]
	var err error
	if s.PID, err = natural(bytes.TrimSpace(line[:open])); err != nil {
		return Stat{}, err
	}
	if s.PPID, err = natural(fields[fieldPPID]); err != nil {
		return Stat{}, err
	}
	flags, err := strconv.ParseUint(string(fields[fieldFlags]), 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("%w: flags %q", ErrMalformed, fields[fieldFlags])
	}
	s.Exiting = flags&exiting != 0
	if s.Threads, err = natural(fields[fieldThreads]); err != nil {
		return Stat{}, err
	}
	if s.Start, err = strconv.ParseUint(string(fields[fieldStart]), 10, 64); err != nil {
		return Stat{}, fmt.Errorf("%w: start %q", ErrMalformed, fields[fieldStart])
	}
	return s, nil
}

func natural(text []byte) (int, error) {
	n, err := strconv.ParseUint(string(text), 10, 64)
	if err != nil || n > math.MaxInt32 {
		return 0, fmt.Errorf("%w: number %q", ErrMalformed, text)
	}
	return int(n), nil
}
