package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// blocking are the system calls in which threads spend their time; the others go by their number. Calls that only some
// architectures have are in older.
var blocking = map[int]string{
	unix.SYS_FUTEX: "futex", unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_READV: "readv",
	unix.SYS_WRITEV:  "writev",
	unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64", unix.SYS_PPOLL: "ppoll", unix.SYS_PSELECT6: "pselect6",
	unix.SYS_EPOLL_PWAIT: "epoll_pwait", unix.SYS_CLOCK_NANOSLEEP: "clock_nanosleep", unix.SYS_NANOSLEEP: "nanosleep",
	unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_RECVFROM: "recvfrom", unix.SYS_RECVMSG: "recvmsg",
	unix.SYS_SENDTO: "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_ACCEPT: "accept", unix.SYS_ACCEPT4: "accept4",
	unix.SYS_CONNECT: "connect", unix.SYS_IOCTL: "ioctl", unix.SYS_FSYNC: "fsync", unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_OPENAT: "openat", unix.SYS_MMAP: "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_MADVISE: "madvise",
	unix.SYS_MSYNC: "msync", unix.SYS_FLOCK: "flock", unix.SYS_FCNTL: "fcntl",
	unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait",
	unix.SYS_RT_SIGSUSPEND:   "rt_sigsuspend", unix.SYS_RESTART_SYSCALL: "restart_syscall",
	unix.SYS_SCHED_YIELD: "sched_yield",
	unix.SYS_EXIT_GROUP:  "exit_group", unix.SYS_CLONE: "clone",
}

// SyscallName is the name of a system call's number as Task has it; "" for none and for unknown.
func SyscallName(n int) string {
	if n < 0 {
		return ""
	}
	for _, table := range []map[int]string{blocking, older} {
		if name, ok := table[n]; ok {
			return name
		}
	}
	return fmt.Sprintf("system call %d", n)
}
