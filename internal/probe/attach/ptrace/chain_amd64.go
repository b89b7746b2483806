package ptrace

import (
	"bytes"
	"encoding/binary"
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
func (h *Held) Syscall() (nr int64, args [6]uint64, ok bool) {
	r := &h.Regs
	return int64(r.Orig_rax), [6]uint64{r.Rdi, r.Rsi, r.Rdx, r.R10, r.R8, r.R9}, int64(r.Orig_rax) >= 0
}

// userCode is the code segment of 64-bit programs, __USER_CS in arch/x86/include/asm/segment.h; a 32-bit system call
// comes from another one.
const userCode = 0x33

// Unfit says why no chain can be laid out for the thread as it is; "" if one can.
func (h *Held) Unfit() string {
	if h.Regs.Cs != userCode {
		return "in 32-bit code"
	}
	return ""
}

// Return returns where the thread's function returns to, if a register says so.
func (h *Held) Return() (uint64, bool) { return 0, false }

// Code returns the address that a word on the stack means, if it is one of code.
func (h *Held) Code(word uint64) uint64 { return word }

// BeginsHandler reports whether the thread is at the first instruction of a signal handler: its return address is then
// on top of the stack.
func (h *Held) BeginsHandler(mem io.ReaderAt, g Gadgets) (bool, error) {
	b, err := h.Stack(mem, h.Regs.Rsp, 8)
	return err == nil && binary.LittleEndian.Uint64(b) == g.Sigreturn, err
}

// The kernel's own codes for "not done, begin again" (include/linux/errno.h), seen only by a tracer.
const (
	restartSys   = 512
	restartNoint = 513
	restartNohnd = 514
	restartBlock = 516
)

// Interrupted reports whether the stop has interrupted the system call before it did anything.
func (h *Held) Interrupted() bool { return h.Regs.interrupted() }

func (r *Regs) interrupted() bool {
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

// FindGadgets looks for them in code that lies at base. What is missing is 0.
func FindGadgets(base uint64, code []byte) (g Gadgets) {
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
	return g
}

// Offsets of a frame's registers from its beginning: return address, then struct ucontext with the registers in the
// order of struct sigcontext_64 (arch/x86/include/uapi/asm/sigcontext.h).
const (
	frameFlags  = 8 + 24 // of the alternate stack
	frameRegs   = 8 + 40
	frameCS     = frameRegs + 18*8
	FrameResult = frameRegs + 13*8 // rax
	FramePC     = frameRegs + 16*8 // rip
	frameSize   = 8 + 304
)

// noStack are flags that no alternate stack has. They make rt_sigreturn leave the alternate stack alone. They also
// distinguish a leftover frame of ours from a signal's.
const noStack = 0xdead

// HasSignalFrame searches a stack, from an address on, for the frame of a signal handler.
func HasSignalFrame(_ uint64, stack []byte, g Gadgets) bool {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(stack[at:]) }
	for at := 0; at+frameSize <= len(stack); at += 8 {
		if word(at) == g.Sigreturn && word(at+frameFlags) != noStack &&
			binary.LittleEndian.Uint16(stack[at+frameCS:]) == userCode {
			return true
		}
	}
	return false
}

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
	b := h.builder((h.Regs.Rsp-redZone)&^63, c.Gadgets)
	fp := b.push(x, 64, 0)
	last := b.frame(&final, h.Mask, fp)
	next := last
	for i := len(c.Calls) - 1; i >= 0; i-- {
		r := c.Calls[i].regs(&h.Regs, last, resume)
		r.Rsp = next
		next = b.frame(&r, c.Mask, 0)
	}
	if err := b.write(mem); err != nil {
		return err
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
	if int64(r.Orig_rax) < 0 {
		return 0
	}
	switch code := -int64(r.Rax); {
	case !r.interrupted():
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
		*p = c.argument(i, final, resume)
	}
	out.R10 = out.Rcx // the fourth argument of a system call
	out.Rip, out.Rax = c.PC, c.Number
	out.Rbp = 0
	out.Eflags &^= 1<<10 | 1<<8 // direction up, as the ABI wants it at a call; no single step
	return out
}

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

// archSpace is what space has for other architectures.
type archSpace struct{}

func (h *Held) readMore() {}

func (s *archSpace) touch() { stateEnds() }
