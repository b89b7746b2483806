package ptrace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Regs are a thread's general registers.
type Regs unix.PtraceRegs

func (r *Regs) get(tid int) error {
	if err := unix.PtraceGetRegs(tid, (*unix.PtraceRegs)(r)); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	return nil
}

// PC and SP are where the thread runs and where its stack ends.
func (r *Regs) PC() uint64 { return r.Rip }
func (r *Regs) SP() uint64 { return r.Rsp }

// Syscall returns the system call that the stop has interrupted or that has just ended; false if the thread was
// computing.
func (r *Regs) Syscall() (nr int64, args [6]uint64, ok bool) {
	return int64(r.Orig_rax), [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}, int64(r.Orig_rax) >= 0 &&
		r.Cs == userCode
}

// userCode is the code segment of 64-bit programs, __USER_CS in arch/x86/include/asm/segment.h; a 32-bit system call
// comes from another one.
const userCode = 0x33

// LongMode tells whether the thread runs 64-bit code.
func (r *Regs) LongMode() bool { return r.Cs == userCode }

// The kernel's own codes for "not done, begin again" (include/linux/errno.h), seen only by a tracer.
const (
	restartSys   = 512
	restartNoint = 513
	restartNohnd = 514
	restartBlock = 516
)

// Interrupted reports whether the stop has interrupted the system call before it did anything.
func (r *Regs) Interrupted() bool {
	switch -int64(r.Rax) {
	case restartSys, restartNoint, restartNohnd, restartBlock, int64(unix.EINTR):
		return true
	}
	return false
}

// Gadgets are two pieces of code that every C library contains.
type Gadgets struct {
	Sigreturn uint64 // mov $15,%eax; syscall: what a signal handler returns to
	Syscall   uint64 // syscall; ret
}

// FindGadgets looks for them in code that lies at base.
func FindGadgets(base uint64, code []byte) (Gadgets, bool) {
	var g Gadgets
	// glibc's and musl's __restore_rt
	for _, p := range []string{"\x48\xc7\xc0\x0f\x00\x00\x00\x0f\x05", "\xb8\x0f\x00\x00\x00\x0f\x05"} {
		if i := bytes.Index(code, []byte(p)); i >= 0 {
			g.Sigreturn = base + uint64(i)
			break
		}
	}
	if i := bytes.Index(code, []byte("\x0f\x05\xc3")); i >= 0 {
		g.Syscall = base + uint64(i)
	}
	return g, g.Sigreturn != 0 && g.Syscall != 0
}

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

// Offsets of a frame's registers from its beginning: return address, then struct ucontext with the registers in the
// order of struct sigcontext_64 (arch/x86/include/uapi/asm/sigcontext.h).
const (
	frameFlags = 8 + 24 // of the alternate stack
	frameRegs  = 8 + 40
	frameCS    = frameRegs + 18*8
	FrameRAX   = frameRegs + 13*8
	FrameRIP   = frameRegs + 16*8
	frameSize  = 8 + 304
)

// noStack are flags that no alternate stack has. They make rt_sigreturn leave the alternate stack alone. They also
// distinguish a leftover frame of ours from a signal's.
const noStack = 0xdead

// HasSignalFrame searches a part of a stack for the frame of a signal handler.
func HasSignalFrame(stack []byte, g Gadgets) bool {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(stack[at:]) }
	for at := 0; at+frameSize <= len(stack); at += 8 {
		if word(at) == g.Sigreturn && word(at+frameFlags) != noStack &&
			binary.LittleEndian.Uint16(stack[at+frameCS:]) == userCode {
			return true
		}
	}
	return false
}

// MaxChain is room enough below the stack pointer for any chain: the extended state with AMX is 11 KiB, a frame 312
// bytes.
const MaxChain = 16 << 10

// ErrNoRoom means that the thread's stack has no room for a chain.
var ErrNoRoom = errors.New("no room on the thread's stack")

const redZone = 128 // bytes below the stack pointer that a function may use without moving it (System V ABI, 3.2.2)

// Enter lays out the chain below the thread's stack, and makes the thread begin it when it is released. It must be the
// last call for a stopped thread. Until its last system call, which sets the registers, nothing has changed for the
// thread.
func (h *Held) Enter(mem io.WriterAt, c Chain) error {
	x, err := h.extendedState()
	if err != nil {
		return err
	}
	final := h.Regs
	resume := final.settle(c)
	b := builder{top: (h.Regs.Rsp - redZone) &^ 63, gadgets: c.Gadgets}
	b.buf = h.space.chain[:]
	b.sp = b.top
	fp := b.push(x, 64, 0)
	last := b.frame(&final, h.Mask, fp)
	next := last
	for i := len(c.Calls) - 1; i >= 0; i-- {
		r := c.Calls[i].regs(&h.Regs, last, resume)
		r.Rsp = next
		next = b.frame(&r, c.Mask, 0)
	}
	at, image := b.image()
	if n, err := mem.WriteAt(image, int64(at)); err != nil || n != len(image) {
		return fmt.Errorf("%w: write %d bytes at %#x: %v", ErrNoRoom, len(image), at, err)
	}
	enter := h.Regs
	enter.Rip, enter.Rsp = c.Gadgets.Sigreturn, next+8 // as after the return that takes the frame's first word
	enter.Orig_rax = ^uint64(0)                        // the kernel has no system call to repeat
	enter.Rax = 0
	return unix.PtraceSetRegs(h.TID, (*unix.PtraceRegs)(&enter))
}

// settle turns the registers of an interrupted system call into those with which the thread continues, as the kernel
// does when no handler runs (arch/x86/kernel/signal.c, arch_do_signal_or_restart). A signal frame can't carry the
// kernel's restart block (rt_sigreturn drops it), so calls that need one end with EINTR, as they do after any handler.
// It returns the address after the system call if that is repeated, else 0.
func (r *Regs) settle(c Chain) (resume uint64) {
	if _, _, ok := r.Syscall(); !ok {
		return 0
	}
	switch code := -int64(r.Rax); {
	case !r.Interrupted():
	case c.EINTR && code != restartNoint, c.Repeat == nil && (code == restartBlock || code == int64(unix.EINTR)):
		r.Rax = ^uint64(unix.EINTR) + 1
	case code == restartSys, code == restartNohnd:
		resume = r.again()
	case code == restartNoint:
		r.again() // not even a handler ends it
	default:
		repeat := c.Repeat
		r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9 = repeat[0], repeat[1], repeat[2], repeat[3], repeat[4], repeat[5]
		resume = r.again()
	}
	return resume
}

// again makes the system call the next instruction, and returns the one after it.
func (r *Regs) again() uint64 {
	after := r.Rip
	r.Rax = r.Orig_rax
	r.Rip -= 2 // the length of the syscall instruction
	return after
}

func (c Call) regs(r *Regs, final, resume uint64) Regs {
	out := *r
	for i, p := range []*uint64{&out.Rdi, &out.Rsi, &out.Rdx, &out.Rcx, &out.R8, &out.R9} {
		switch *p = c.Args[i]; *p {
		case FinalFrame:
			*p = final
		case ResumePC:
			*p = resume
		}
	}
	out.R10 = out.Rcx // the fourth argument of a system call
	out.Rip, out.Rax = c.PC, c.Number
	out.Rbp = 0
	out.Eflags &^= 1<<10 | 1<<8 // direction up, as the ABI wants it at a call; no single step
	return out
}

// builder fills a buffer from its end, as a stack grows.
type builder struct {
	top, sp uint64
	buf     []byte
	gadgets Gadgets
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

func (b *builder) image() (uint64, []byte) { return b.sp, b.at(b.sp) }

// frame is what rt_sigreturn reads: the address that follows, then struct ucontext
// (arch/x86/include/uapi/asm/ucontext.h). Without extended state the kernel gives the thread a fresh one.
func (b *builder) frame(r *Regs, mask, fp uint64) uint64 {
	var f [frameSize]byte
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(f[off:], v) }
	put(0, b.gadgets.Sigreturn)
	put(8, 1|2|4) // UC_FP_XSTATE, UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
	put(frameFlags, noStack)
	for i, v := range []uint64{r.R8, r.R9, r.R10, r.R11, r.R12, r.R13, r.R14, r.R15, r.Rdi, r.Rsi, r.Rbp, r.Rbx, r.Rdx,
		r.Rax, r.Rcx, r.Rsp, r.Rip, r.Eflags} {
		put(frameRegs+8*i, v)
	}
	binary.LittleEndian.PutUint16(f[frameCS:], uint16(r.Cs))
	binary.LittleEndian.PutUint16(f[frameRegs+150:], uint16(r.Ss))
	put(frameRegs+184, fp)
	put(8+296, mask)
	return b.push(f[:], 16, 8) // at a function's first instruction the stack pointer is 8 off a multiple of 16
}

// extendedState returns the thread's floating-point and vector state in the form that a signal frame has it.
func (h *Held) extendedState() ([]byte, error) {
	x := h.space.state[:]
	iov := unix.Iovec{Base: &x[0], Len: uint64(len(x))}
	const ntX86XState = 0x202
	if err := request(unix.PTRACE_GETREGSET, h.TID, ntX86XState, unsafe.Pointer(&iov)); err != nil {
		return nil, fmt.Errorf("read extended state: %w", err)
	}
	return frameState(x[:iov.Len])
}
