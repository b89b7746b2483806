package attach

import "debug/elf"

// What this build of memgauge can attach to.
const (
	thisMachine = elf.EM_X86_64
	machineName = "x86-64"
)
