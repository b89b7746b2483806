package cell

import "golang.org/x/sys/unix"

// oldCalls are calls of this architecture for which newer ones have those that name a directory, or clone.
var oldCalls = []uint32{unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME, unix.SYS_UTIMES,
	unix.SYS_FUTIMESAT, unix.SYS_FORK, unix.SYS_VFORK}
