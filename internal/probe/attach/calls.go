package attach

import "golang.org/x/sys/unix"

const (
	mapPlace    = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE | unix.MAP_NORESERVE
	mapStack    = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_STACK | unix.MAP_NORESERVE
	threadFlags = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SYSVSEM | unix.CLONE_SIGHAND |
		unix.CLONE_THREAD | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID // pthread_create's
	place    = 1 << 32    // an arbitrary address
	anywhere = ^uint64(0) // no descriptor
	here     = uint64(1<<64 + unix.AT_FDCWD)
)

// systemCallsMade are the system calls that the kernel received (raw_syscalls:sys_enter) from a training that was
// attached to, queried by eval, backtrace, tensors and where, and detached from: first by the main thread in our chain,
// then by our threads. Where another C library or Python may use another call for the same purpose, that call is listed
// too.
var systemCallsMade = append(callsHere, []made{
	{unix.SYS_RT_SIGRETURN, "rt_sigreturn", [6]uint64{}, true},
	{unix.SYS_MMAP, "mmap of code", [6]uint64{place, pageSize, unix.PROT_READ | unix.PROT_EXEC, mapPlace, anywhere},
		true},
	{unix.SYS_MMAP, "mmap", [6]uint64{place, pageSize, unix.PROT_READ | unix.PROT_WRITE, mapPlace, anywhere}, true},
	{unix.SYS_MMAP, "mmap of a stack", [6]uint64{0, 8 << 20, unix.PROT_NONE, mapStack, anywhere}, true},
	{unix.SYS_MPROTECT, "mprotect", [6]uint64{place, 8 << 20, unix.PROT_READ | unix.PROT_WRITE}, true},
	{unix.SYS_CLONE, "clone of a thread", [6]uint64{threadFlags}, true},
	{unix.SYS_CLONE3, "clone3", [6]uint64{0, 88}, false}, // ENOSYS leads to clone
	{unix.SYS_MUNMAP, "munmap", [6]uint64{place, pageSize}, true},
	{unix.SYS_MMAP, "mmap of a ring", [6]uint64{0, 1 << 20, unix.PROT_READ | unix.PROT_WRITE, unix.MAP_SHARED}, false},
	{unix.SYS_SOCKET, "socket", [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM | unix.SOCK_CLOEXEC}, false},
	{unix.SYS_FCNTL, "fcntl", [6]uint64{0, unix.F_DUPFD_CLOEXEC}, false},
	{unix.SYS_FCNTL, "fcntl of flags", [6]uint64{0, unix.F_GETFD}, false},
	{unix.SYS_PRCTL, "prctl", [6]uint64{unix.PR_SET_NAME}, false},
	{unix.SYS_IOCTL, "ioctl", [6]uint64{0, unix.TCGETS}, false},
	{unix.SYS_OPENAT, "openat", [6]uint64{here, 0, unix.O_RDWR | unix.O_CREAT | unix.O_CLOEXEC, 0o600}, false},
	{nr: unix.SYS_RT_SIGPROCMASK, name: "rt_sigprocmask"},
	{nr: unix.SYS_RSEQ, name: "rseq"},
	{nr: unix.SYS_SET_ROBUST_LIST, name: "set_robust_list"},
	{nr: unix.SYS_EXIT, name: "exit"},
	{nr: unix.SYS_MADVISE, name: "madvise"},
	{nr: unix.SYS_FUTEX, name: "futex"},
	{nr: unix.SYS_BRK, name: "brk"},
	{nr: unix.SYS_GETTID, name: "gettid"},
	{nr: unix.SYS_GETPID, name: "getpid"},
	{nr: unix.SYS_GETUID, name: "getuid"},
	{nr: unix.SYS_GETEUID, name: "geteuid"},
	{nr: unix.SYS_CLOCK_GETTIME, name: "clock_gettime"},
	{nr: unix.SYS_CLOCK_NANOSLEEP, name: "clock_nanosleep"},
	{nr: unix.SYS_NANOSLEEP, name: "nanosleep"},
	{nr: unix.SYS_GETRANDOM, name: "getrandom"},
	{nr: unix.SYS_PRLIMIT64, name: "prlimit64"},
	{nr: unix.SYS_UNAME, name: "uname"},
	{nr: unix.SYS_GETRUSAGE, name: "getrusage"},
	{nr: unix.SYS_SCHED_GETAFFINITY, name: "sched_getaffinity"},
	{nr: unix.SYS_READ, name: "read"},
	{nr: unix.SYS_PREAD64, name: "pread64"},
	{nr: unix.SYS_WRITE, name: "write"},
	{nr: unix.SYS_WRITEV, name: "writev"},
	{nr: unix.SYS_LSEEK, name: "lseek"},
	{nr: unix.SYS_CLOSE, name: "close"},
	{nr: unix.SYS_FSTAT, name: "fstat"},
	{nr: unix.SYS_NEWFSTATAT, name: "newfstatat"},
	{nr: unix.SYS_GETDENTS64, name: "getdents64"},
	{nr: unix.SYS_GETCWD, name: "getcwd"},
	{nr: unix.SYS_FALLOCATE, name: "fallocate"},
	{nr: unix.SYS_FCHMOD, name: "fchmod"},
	{nr: unix.SYS_PIPE2, name: "pipe2"},
	{nr: unix.SYS_BIND, name: "bind"},
	{nr: unix.SYS_LISTEN, name: "listen"},
	{nr: unix.SYS_ACCEPT4, name: "accept4"},
	{nr: unix.SYS_GETSOCKNAME, name: "getsockname"},
	{nr: unix.SYS_GETSOCKOPT, name: "getsockopt"},
	{nr: unix.SYS_SENDTO, name: "sendto"},
	{nr: unix.SYS_RECVFROM, name: "recvfrom"},
	{nr: unix.SYS_RECVMSG, name: "recvmsg"},
	{nr: unix.SYS_SHUTDOWN, name: "shutdown"},
}...)
