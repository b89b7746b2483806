package attach

import "golang.org/x/sys/unix"

// Here the kernel does not tell a stopped thread's tracer with which code a system call was interrupted, nor whether it
// had begun (see ptrace.Held.Syscall). So what is repeated follows from the call and its arguments: those that the
// kernel would repeat by itself, with the same arguments. A call that it has begun to repeat where only it knows the
// time that remains is seen as restart_syscall from then on.
var waits = map[int64]wait{
	unix.SYS_FUTEX:    {name: "futex", fits: lockFree, repeat: absolute},
	unix.SYS_READ:     {name: "read", repeat: same},
	unix.SYS_READV:    {name: "readv", repeat: same},
	unix.SYS_RECVFROM: {name: "recvfrom", repeat: same},
	unix.SYS_RECVMSG:  {name: "recvmsg", repeat: same},
	unix.SYS_ACCEPT:   {name: "accept", repeat: same},
	unix.SYS_ACCEPT4:  {name: "accept4", repeat: same},
	// the kernel writes the remaining time back
	unix.SYS_PSELECT6: {name: "pselect6", repeat: same},
	unix.SYS_PPOLL:    {name: "ppoll", repeat: same},
	// it ends them with EINTR itself: seen before its instruction, one has not begun
	unix.SYS_EPOLL_PWAIT:     {name: "epoll_pwait", repeat: same},
	unix.SYS_EPOLL_PWAIT2:    {name: "epoll_pwait2", repeat: same},
	unix.SYS_NANOSLEEP:       {name: "nanosleep", begun: always},
	unix.SYS_CLOCK_NANOSLEEP: {name: "clock_nanosleep", repeat: deadline, begun: relative},
	unix.SYS_RESTART_SYSCALL: {name: "a wait with a limit", fits: notALock},
	unix.SYS_WAIT4:           {name: "wait4", repeat: same},
	unix.SYS_WAITID:          {name: "waitid", repeat: same},
	unix.SYS_FLOCK:           {name: "flock", repeat: same},
}

func always([6]uint64) bool { return true }

func same(args [6]uint64) *[6]uint64 { return &args }

func relative(args [6]uint64) bool { return args[1]&unix.TIMER_ABSTIME == 0 }

// deadline repeats a sleep until a point in time.
func deadline(args [6]uint64) *[6]uint64 {
	if relative(args) {
		return nil
	}
	return &args
}

// notALock refuses what may be a wait with a limit for a lock: its second argument is then an operation of futex, a
// small number where sleeps have a pointer or one bit.
func notALock(args [6]uint64) bool {
	const most = futexCommand | 1<<7 | 1<<8 // FUTEX_PRIVATE_FLAG, FUTEX_CLOCK_REALTIME
	return args[1] > most || args[1] <= 1 && args[2] > most || lockFree(args)
}

// systemCalls names the calls in which a thread may be found without being borrowable, for messages.
var systemCalls = map[int64]string{
	unix.SYS_WRITE: "write", unix.SYS_OPENAT: "openat", unix.SYS_IOCTL: "ioctl", unix.SYS_FSYNC: "fsync",
	unix.SYS_FDATASYNC: "fdatasync",
	unix.SYS_MMAP:      "mmap", unix.SYS_MUNMAP: "munmap", unix.SYS_BRK: "brk", unix.SYS_MADVISE: "madvise",
	unix.SYS_CONNECT: "connect",
	unix.SYS_SENDTO:  "sendto", unix.SYS_SENDMSG: "sendmsg", unix.SYS_CLONE: "clone",
	unix.SYS_EXECVE:      "execve",
	unix.SYS_SCHED_YIELD: "sched_yield", unix.SYS_RT_SIGTIMEDWAIT: "rt_sigtimedwait",
	unix.SYS_RT_SIGSUSPEND: "rt_sigsuspend",
	unix.SYS_FCNTL:         "fcntl", unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_IO_GETEVENTS: "io_getevents",
}
