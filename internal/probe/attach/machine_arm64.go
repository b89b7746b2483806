package attach

import (
	"debug/elf"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/probe/attach/image"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// What this build of memgauge can attach to.
const (
	thisMachine = elf.EM_AARCH64
	machineName = "aarch64"
	// auditArch is the value by which a filter recognises system calls of this architecture.
	auditArch = unix.AUDIT_ARCH_AARCH64
	// pageSize is the largest that kernels have here; with smaller ones the rest is never touched.
	pageSize = 64 << 10
)

// handlersReturn is the code that signal handlers return to: musl has its own, glibc leaves it to the kernel's page.
func (t *Target) handlersReturn(libc image.Mapping) uint64 {
	if strings.Contains(libc.Path, "musl") {
		return 0
	}
	for _, m := range t.maps {
		if m.Path != "[vdso]" {
			continue
		}
		code := make([]byte, min(m.Hi-m.Lo, maxCode))
		n, _ := t.mem.ReadAt(code, int64(m.Lo))
		return ptrace.FindGadgets(m.Lo, code[:n]).Sigreturn
	}
	return 0
}
