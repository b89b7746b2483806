package attach

import "debug/elf"

const thisMachine = elf.EM_X86_64
