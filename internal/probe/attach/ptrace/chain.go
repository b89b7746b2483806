package ptrace

import (
	"errors"
	"fmt"
	"io"
)

// What the architectures share. Each has in its own file: Regs, Gadgets with FindGadgets, what can be seen of a stopped
// thread (Held's Syscall, Interrupted, Unfit, Return, Code, BeginsHandler), HasSignalFrame, and Enter.

// Call is a step of a chain: a function, or the Syscall gadget with the number in Number.
type Call struct {
	PC     uint64
	Number uint64
	Args   [6]uint64
}

// Chain is the work that Enter lays out.
type Chain struct {
	Gadgets Gadgets
	Calls   []Call
	Mask    uint64 // signals that are blocked meanwhile
	EINTR   bool   // end an interrupted call with EINTR where a handler would
	// otherwise: the arguments for repeating an interrupted call that the kernel would not repeat
	Repeat *[6]uint64
}

// Arguments of a Call that Enter fills in.
const (
	FinalFrame = 0xF1A1F1A1F1A1F1A1 // the address of the last signal frame
	// the address after the interrupted system call, if it is to be repeated; else 0
	ResumePC = 0xF1A1F1A1F1A1F1A2
)

// argument is the value of an argument, once the chain's place is known.
func (c Call) argument(i int, final, resume uint64) uint64 {
	switch v := c.Args[i]; v {
	case FinalFrame:
		return final
	case ResumePC:
		return resume
	default:
		return v
	}
}

// MaxChain is room enough below the stack pointer for any chain. On x86-64 the extended state with AMX is 11 KiB, a
// frame 312 bytes; on aarch64 SVE's registers with the longest vectors are 9 KiB, a frame 1.1 KiB.
const MaxChain = 16 << 10

// ErrNoRoom means that the thread's stack has no room for a chain.
var ErrNoRoom = errors.New("no room on the thread's stack")

// builder fills a buffer from its end, as a stack grows.
type builder struct {
	top, sp uint64
	buf     []byte
	gadgets Gadgets
}

func (h *Held) builder(top uint64, g Gadgets) builder {
	return builder{top: top, sp: top, buf: h.space.chain[:], gadgets: g}
}

func (b *builder) at(addr uint64) []byte { return b.buf[uint64(len(b.buf))-(b.top-addr):] }

func (b *builder) push(data []byte, align, residue uint64) uint64 {
	b.sp = (b.sp-uint64(len(data))-residue)&^(align-1) + residue
	if b.top-b.sp > uint64(len(b.buf)) {
		panic("chain longer than MaxChain") // the calls are ours, and few
	}
	copy(b.at(b.sp), data)
	return b.sp
}

// write puts what was pushed below the thread's stack.
func (b *builder) write(mem io.WriterAt) error {
	image := b.at(b.sp)
	if n, err := mem.WriteAt(image, int64(b.sp)); err != nil || n != len(image) {
		return fmt.Errorf("%w: write %d bytes at %#x: %v", ErrNoRoom, len(image), b.sp, err)
	}
	return nil
}
