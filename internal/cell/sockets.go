package cell

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// auditArch is how the kernel calls the system calls that this program makes (linux/audit.h), by GOARCH.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// x32 is set in the numbers of amd64's second table of system calls (__X32_SYSCALL_BIT).
const x32 = 0x40000000

// closed are the system calls that a cell has no use for: new ways to others, and what could reach into their
// processes.
var closed = []uint32{unix.SYS_SOCKET, unix.SYS_SOCKETPAIR, unix.SYS_CONNECT, unix.SYS_PTRACE,
	unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_IO_URING_SETUP, unix.SYS_BPF, unix.SYS_MOUNT,
	unix.SYS_KEYCTL, unix.SYS_PIDFD_GETFD}

// Offsets in what a filter reads: struct seccomp_data (linux/seccomp.h).
const (
	dataNumber = 0
	dataArch   = 4
)

// noSockets takes those calls from the calling thread and from the processes that it starts (seccomp(2)): they fail
// with EACCES. On an architecture that is not listed nothing is taken.
func noSockets() error {
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
	code = append(code, give(unix.SECCOMP_RET_ALLOW))
	filter := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	runtime.KeepAlive(code)
	if err != nil {
		return fmt.Errorf("take a cell's sockets: %w", err)
	}
	return nil
}
