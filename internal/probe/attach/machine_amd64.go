package attach

import (
	"debug/elf"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/probe/attach/image"
)

// What this build of memgauge can attach to.
const (
	thisMachine = elf.EM_X86_64
	machineName = "x86-64"
	// auditArch is the value by which a filter recognises system calls of this architecture.
	auditArch = unix.AUDIT_ARCH_X86_64
	pageSize  = 4096
)

// handlersReturn has nothing to add: signal handlers return to code of the C library.
func (t *Target) handlersReturn(image.Mapping) uint64 { return 0 }
