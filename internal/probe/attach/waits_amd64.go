package attach

import "golang.org/x/sys/unix"

var waits = map[int64]wait{
	unix.SYS_FUTEX:    {name: "futex", fits: lockFree, repeat: absolute},
	unix.SYS_READ:     {name: "read"},
	unix.SYS_READV:    {name: "readv"},
	unix.SYS_RECVFROM: {name: "recvfrom"},
	unix.SYS_RECVMSG:  {name: "recvmsg"},
	unix.SYS_ACCEPT:   {name: "accept"},
	unix.SYS_ACCEPT4:  {name: "accept4"},
	// the kernel writes the remaining time back, also for pselect6 and ppoll
	unix.SYS_SELECT:          {name: "select"},
	unix.SYS_PSELECT6:        {name: "pselect6"},
	unix.SYS_POLL:            {name: "poll", repeat: endless(2)},
	unix.SYS_PPOLL:           {name: "ppoll"},
	unix.SYS_EPOLL_WAIT:      {name: "epoll_wait", repeat: endless(3)},
	unix.SYS_EPOLL_PWAIT:     {name: "epoll_pwait", repeat: endless(3)},
	unix.SYS_EPOLL_PWAIT2:    {name: "epoll_pwait2"},
	unix.SYS_NANOSLEEP:       {name: "nanosleep", repeat: rest(0, 1)},
	unix.SYS_CLOCK_NANOSLEEP: {name: "clock_nanosleep", repeat: rest(2, 3)},
	unix.SYS_WAIT4:           {name: "wait4"},
	unix.SYS_WAITID:          {name: "waitid"},
	unix.SYS_FLOCK:           {name: "flock"},
	unix.SYS_PAUSE:           {name: "pause"},
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
