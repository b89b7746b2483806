package attach

import "golang.org/x/sys/unix"

// wait is a system call in which a thread may be borrowed. It blocks, ends by itself only when something happens, and
// no C library makes it while it holds one of the locks that starting a thread takes (malloc's, the stack cache's, the
// loader's). docs/attach.md gives the reasons one by one.
type wait struct {
	name string
	// fits checks the arguments where the number alone doesn't decide.
	fits func(args [6]uint64) bool
	// repeat returns the arguments with which the call can be repeated although the kernel would return EINTR or keep
	// the remaining time to itself; nil where only EINTR is possible.
	repeat func(args [6]uint64) *[6]uint64
}

var waits = map[int64]wait{
	unix.SYS_FUTEX:    {"futex", lockFree, absolute},
	unix.SYS_READ:     {"read", nil, nil},
	unix.SYS_READV:    {"readv", nil, nil},
	unix.SYS_RECVFROM: {"recvfrom", nil, nil},
	unix.SYS_RECVMSG:  {"recvmsg", nil, nil},
	unix.SYS_ACCEPT:   {"accept", nil, nil},
	unix.SYS_ACCEPT4:  {"accept4", nil, nil},
	// the kernel writes the remaining time back, also for pselect6 and ppoll
	unix.SYS_SELECT:          {"select", nil, nil},
	unix.SYS_PSELECT6:        {"pselect6", nil, nil},
	unix.SYS_POLL:            {"poll", nil, endless(2)},
	unix.SYS_PPOLL:           {"ppoll", nil, nil},
	unix.SYS_EPOLL_WAIT:      {"epoll_wait", nil, endless(3)},
	unix.SYS_EPOLL_PWAIT:     {"epoll_pwait", nil, endless(3)},
	unix.SYS_EPOLL_PWAIT2:    {"epoll_pwait2", nil, nil},
	unix.SYS_NANOSLEEP:       {"nanosleep", nil, rest(0, 1)},
	unix.SYS_CLOCK_NANOSLEEP: {"clock_nanosleep", nil, rest(2, 3)},
	unix.SYS_WAIT4:           {"wait4", nil, nil},
	unix.SYS_WAITID:          {"waitid", nil, nil},
	unix.SYS_FLOCK:           {"flock", nil, nil},
	unix.SYS_PAUSE:           {"pause", nil, nil},
}

const (
	futexWait       = 0
	futexWaitBitset = 9
	futexCommand    = 0x7f
	futexLowLevel   = 2 // the value of glibc's own locks while a thread waits for them (sysdeps/nptl/lowlevellock.h)
)

// lockFree accepts waits for semaphores, conditions and threads' ends, but none for a lock: for its own locks glibc
// waits with plain FUTEX_WAIT and the value 2, musl with a negative one.
func lockFree(args [6]uint64) bool {
	value := int32(args[2])
	switch args[1] & futexCommand {
	case futexWait:
		return value != futexLowLevel && value >= 0
	case futexWaitBitset:
		return true
	}
	return false
}

// absolute repeats a futex wait whose time limit is absolute (or missing).
func absolute(args [6]uint64) *[6]uint64 {
	if args[1]&futexCommand == futexWaitBitset || args[3] == 0 {
		return &args
	}
	return nil
}

// endless repeats a call whose argument i, a number of milliseconds, means that there is no limit.
func endless(i int) func([6]uint64) *[6]uint64 {
	return func(args [6]uint64) *[6]uint64 {
		if int32(args[i]) < 0 {
			return &args
		}
		return nil
	}
}

// rest repeats a sleep for the remaining time, which the kernel has written to the caller's memory.
func rest(request, remaining int) func([6]uint64) *[6]uint64 {
	return func(args [6]uint64) *[6]uint64 {
		if args[remaining] == 0 {
			return nil
		}
		args[request] = args[remaining]
		return &args
	}
}

// systemCalls names the calls in which a thread may be found without being borrowable, for messages.
var systemCalls = map[int64]string{
	unix.SYS_WRITE: "write", unix.SYS_OPENAT: "openat", unix.SYS_IOCTL: "ioctl", unix.SYS_FSYNC: "fsync",
	unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MMAP:      "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_BRK: "brk", unix.SYS_MADVISE: "madvise",
	unix.SYS_CONNECT: "connect",
	unix.SYS_SENDTO:  "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_VFORK: "vfork", unix.SYS_CLONE: "clone",
	unix.SYS_EXECVE:      "execve",
	unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait",
	unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
	unix.SYS_FCNTL:         "fcntl", unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_IO_GETEVENTS: "io_getevents",
}
