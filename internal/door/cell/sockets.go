package cell

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is how the kernel calls the system calls that this program makes (linux/audit.h), by GOARCH.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 is set in the numbers of amd64's second table of system calls (__X32_SYSCALL_BIT).
const x32 = 0x40000000

// closed are the system calls that a cell has no use for: new ways to others; what could reach into their processes, or
// slow them down; and what Landlock does not ask about: modes, owners, times and attributes of files, by path. oldCalls
// are those of them that newer architectures have not.
var closed = append([]uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_PTRACE,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_IO_URING_SETUP,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD,
	unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO,
	unix.SYS_SETPRIORITY, unix.SYS_IOPRIO_SET, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM,
	unix.SYS_SCHED_SETATTR, unix.SYS_KCMP,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSMOUNT,
	unix.SYS_MOUNT_SETATTR, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHOWNAT, unix.SYS_UTIMENSAT,
	unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR,
	unix.SYS_FREMOVEXATTR, unix.SYS_NAME_TO_HANDLE_AT, unix.SYS_OPEN_BY_HANDLE_AT,
	unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_SHMCTL, unix.SYS_MSGGET,
	unix.SYS_SEMGET, unix.SYS_MQ_OPEN, unix.SYS_MQ_UNLINK, unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL},
	oldCalls...)

// ownOnly are calls whose first argument is a process, which has to be the cell, or 0, which means it.
var ownOnly = []uint32{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_PRLIMIT64}

// Offsets in what a filter reads: struct seccomp_data (linux/seccomp.h). Both architectures are little-endian, and the
// kernel takes the low half of an argument that is a process.
const (
	dataNumber = 0
	dataArch   = 4
	dataFirst  = 16
)

// noOthers takes those calls from the calling thread and from the processes that it starts (seccomp(2)): they fail
// with EACCES. A thread may be made, a process may not: the bounds of a cell are for each process, and there must be no
// second one. Flags of clone3 lie in memory, where a filter can't read them: it fails with ENOSYS, and the C library
// then calls clone (sysdeps/unix/sysv/linux/clone-internal.c). On an architecture that is not listed nothing is taken.
func noOthers() error {
	arch, known := auditArch[runtime.GOARCH]
	if !known {
		return nil
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	jump := func(how uint16, k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | how | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	give := func(verdict uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: verdict}
	}
	refuse := give(unix.SECCOMP_RET_ERRNO | uint32(unix.EACCES))
	code := []unix.SockFilter{load(dataArch), jump(unix.BPF_JEQ, arch, 1, 0), refuse, load(dataNumber),
		jump(unix.BPF_JGE, x32, 0, 1), refuse}
	for _, number := range closed {
		code = append(code, jump(unix.BPF_JEQ, number, 0, 1), refuse)
	}
	allow, own := give(unix.SECCOMP_RET_ALLOW), uint32(os.Getpid()) // #nosec G115 -- at most 4,194,304
	for _, number := range ownOnly {
		code = append(code, load(dataNumber), jump(unix.BPF_JEQ, number, 0, 5), load(dataFirst),
			jump(unix.BPF_JEQ, 0, 1, 0), jump(unix.BPF_JEQ, own, 0, 1), allow, refuse)
	}
	code = append(code, load(dataNumber), jump(unix.BPF_JEQ, unix.SYS_CLONE3, 0, 1),
		give(unix.SECCOMP_RET_ERRNO|uint32(unix.ENOSYS)), jump(unix.BPF_JEQ, unix.SYS_CLONE, 0, 3), load(dataFirst),
		jump(unix.BPF_JSET, unix.CLONE_THREAD, 1, 0), refuse, allow)
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	runtime.KeepAlive(code)
	if err != nil {
		return fmt.Errorf("take a cell's system calls: %w", err)
	}
	return nil
}
