package ptrace

import (
	"encoding/binary"
	"fmt"
	"sync"
)

// Parts of the extended state (Intel SDM volume 1, chapter 13; struct _xstate in the kernel's sigcontext.h).
const (
	legacySize  = 512
	headerEnd   = legacySize + 64
	swReserved  = 464 // of the legacy area: struct _fpx_sw_bytes
	magic1      = 0x46505853
	magic2      = 0x46505845
	tileData    = 18 // AMX: 8 KiB that only threads have which asked for it (arch_prctl ARCH_REQ_XCOMP_PERM)
	maxFeatures = 63
)

// stateEnds is where each part of the extended state ends, in the processor's standard format. In a virtual machine a
// CPUID takes as long as everything else that is done with a stopped thread, so it is executed beforehand.
var stateEnds = sync.OnceValue(func() (ends [maxFeatures]uint32) {
	for i := range ends {
		length, offset, _, _ := cpuid(0xd, uint32(i))
		ends[i] = offset + length
	}
	return ends
})

// frameState turns what PTRACE_GETREGSET returns into what rt_sigreturn takes. If a frame's state is larger than the
// thread's own, the kernel refuses it (check_xstate_in_sigframe in arch/x86/kernel/fpu/signal.c) and restores the
// legacy part alone. So the size includes AMX's tiles only for a thread that uses them.
func frameState(x []byte) ([]byte, error) {
	if len(x) < headerEnd {
		return nil, fmt.Errorf("extended state of %d bytes: this processor has no XSAVE", len(x))
	}
	// in a regset: what the processor and the kernel have enabled
	features := binary.LittleEndian.Uint64(x[swReserved:])
	inUse := binary.LittleEndian.Uint64(x[legacySize:])
	if inUse&(1<<tileData) == 0 {
		features &^= 1 << tileData
	}
	size := uint32(headerEnd)
	for i := uint32(2); i < maxFeatures; i++ {
		if features&(1<<i) != 0 {
			size = max(size, stateEnds()[i])
		}
	}
	if int(size) > len(x) || int(size)+4 > cap(x) {
		return nil, fmt.Errorf("extended state of %d bytes, the processor says %d", len(x), size)
	}
	x = x[:size]
	sw := x[swReserved:legacySize]
	clear(sw)
	binary.LittleEndian.PutUint32(sw, magic1)
	binary.LittleEndian.PutUint32(sw[4:], size+4)
	binary.LittleEndian.PutUint64(sw[8:], features)
	binary.LittleEndian.PutUint32(sw[16:], size)
	return binary.LittleEndian.AppendUint32(x, magic2), nil
}

// cpuid executes the CPUID instruction.
func cpuid(leaf, sub uint32) (eax, ebx, ecx, edx uint32)
