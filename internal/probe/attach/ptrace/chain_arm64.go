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

// Kinds of register sets (include/uapi/linux/elf.h).
const (
	ntGeneral     = 0x1 // NT_PRSTATUS
	ntFloat       = 0x2 // NT_PRFPREG
	ntSVE         = 0x405
	ntPointerAuth = 0x406 // NT_ARM_PAC_MASK
	ntStreaming   = 0x40b // NT_ARM_SSVE
	ntZA          = 0x40c
	ntGCS         = 0x410
)

// regset transfers a set of registers, and returns how many bytes there were.
func regset(op, tid int, kind uintptr, p unsafe.Pointer, size uintptr) (uint64, error) {
	iov := unix.Iovec{Base: (*byte)(p), Len: uint64(size)}
	err := request(op, tid, kind, unsafe.Pointer(&iov))
	return iov.Len, err
}

func (r *Regs) get(tid int) error {
	if _, err := regset(unix.PTRACE_GETREGSET, tid, ntGeneral, unsafe.Pointer(r), unsafe.Sizeof(*r)); err != nil {
		return fmt.Errorf("read registers: %w", err)
	}
	return nil
}

// PC and SP are where the thread runs and where its stack ends.
func (r *Regs) PC() uint64 { return r.Pc }
func (r *Regs) SP() uint64 { return r.Sp }

const (
	link       = 30     // the register with the return address
	numberAt   = 8      // the register with a system call's number
	svc        = 4      // the length of the instruction that makes one, in bytes
	mode32     = 1 << 4 // of the state: PSR_MODE32_BIT
	branchType = 3 << 10
	tagCheck   = 1 << 25 // PSR_TCO_BIT: tags of memory are not checked
	singleStep = 1 << 21
)

// Syscall returns the system call that the stop has interrupted; false if the thread was computing. At this stop the
// kernel has prepared the call's repetition already (do_signal in arch/arm64/kernel/signal.c): the thread stands before
// the instruction that makes the call, its arguments are where they were, and the kernel has forgotten that there was
// one. A thread that is about to make the call for the first time looks the same, and is in the same state. Only a call
// that the kernel ends with EINTR by itself (epoll_pwait) is over.
func (h *Held) Syscall() (nr int64, args [6]uint64, ok bool) {
	r := &h.Regs
	copy(args[:], r.Regs[:])
	return int64(r.Regs[numberAt]), args, h.space.before || h.space.ended
}

// Interrupted reports whether the stop has interrupted the system call before it did anything; no other is seen.
func (h *Held) Interrupted() bool { return h.space.before || h.space.ended }

// readMore reads what tells more of the moment than the general registers do.
func (h *Held) readMore() {
	const svcCode = 0xd4000001
	var code [2 * svc]byte
	if _, err := unix.PtracePeekText(h.TID, uintptr(h.Regs.Pc)-svc, code[:]); err == nil {
		h.space.before = binary.LittleEndian.Uint32(code[svc:]) == svcCode
		h.space.ended = !h.space.before && binary.LittleEndian.Uint32(code[:]) == svcCode &&
			h.Regs.Regs[0] == ^uint64(unix.EINTR)+1
	}
	var masks [2]uint64 // of data and of code
	if _, err := regset(unix.PTRACE_GETREGSET, h.TID, ntPointerAuth, unsafe.Pointer(&masks),
		unsafe.Sizeof(masks)); err == nil {
		h.space.pacMask = masks[1]
	}
	h.space.unfit = h.extensions()
}

// vectors is the header of sets of vector registers (struct user_sve_header, struct user_za_header).
type vectors struct {
	size, most         uint32
	length, mostLength uint16
	flags              uint16
	_                  uint16
}

const (
	vectorHeader = 16
	ownFormat    = 1 // SVE_PT_REGS_SVE: the set has SVE's registers, not those that they share with floating point
)

// extensions names a state that a signal frame of ours can't carry, or in which C code can't be called: streaming mode
// and an active ZA (SME), and a shadow stack, on which rt_sigreturn wants a token.
func (h *Held) extensions() string {
	var v vectors
	if _, err := regset(unix.PTRACE_GETREGSET, h.TID, ntStreaming, unsafe.Pointer(&v), vectorHeader); err == nil &&
		v.flags&ownFormat != 0 {
		return "in SME's streaming mode"
	}
	if _, err := regset(unix.PTRACE_GETREGSET, h.TID, ntZA, unsafe.Pointer(&v), vectorHeader); err == nil &&
		v.size > vectorHeader {
		return "in code that uses SME's array"
	}
	var enabled uint64
	if _, err := regset(unix.PTRACE_GETREGSET, h.TID, ntGCS, unsafe.Pointer(&enabled),
		unsafe.Sizeof(enabled)); err == nil && enabled&1 != 0 {
		return "under a shadow stack (GCS)"
	}
	return ""
}

// Unfit says why no chain can be laid out for the thread as it is; "" if one can.
func (h *Held) Unfit() string {
	if h.Regs.Pstate&mode32 != 0 {
		return "in 32-bit code"
	}
	return h.space.unfit
}

// Return returns where the thread's function returns to, if a register says so.
func (h *Held) Return() (uint64, bool) { return h.Code(h.Regs.Regs[link]), true }

// Code returns the address that a word on the stack means, if it is one of code: without its signature (PAC).
func (h *Held) Code(word uint64) uint64 { return word &^ h.space.pacMask }

// BeginsHandler reports whether the thread is at the first instructions of a signal handler.
func (h *Held) BeginsHandler(_ io.ReaderAt, g Gadgets) (bool, error) {
	return h.Regs.Regs[link] == g.Sigreturn, nil
}

// Gadgets are two pieces of code.
type Gadgets struct {
	Sigreturn uint64 // mov x8, #139; svc #0: what a signal handler returns to, in the kernel's page or musl
	Syscall   uint64 // svc #0; ret: in every C library
}

// FindGadgets looks for them in code that lies at base. What is missing is 0.
func FindGadgets(base uint64, code []byte) (g Gadgets) {
	find := func(p string) uint64 {
		for at := 0; ; at++ {
			i := bytes.Index(code[at:], []byte(p))
			if i < 0 {
				return 0
			}
			if at += i; at%4 == 0 {
				return base + uint64(at)
			}
		}
	}
	return Gadgets{
		Sigreturn: find("\x68\x11\x80\xd2\x01\x00\x00\xd4"),
		Syscall:   find("\x01\x00\x00\xd4\xc0\x03\x5f\xd6"),
	}
}

// A signal's frame (struct rt_sigframe in arch/arm64/kernel/signal.c): siginfo, struct ucontext, in it struct
// sigcontext with the registers, and behind it records of the rest, each with a magic number and its size
// (arch/arm64/include/uapi/asm/sigcontext.h).
const (
	frameStack  = 128 + 16       // of the alternate stack: address, flags, size
	frameFlags  = frameStack + 8 //
	frameMask   = frameStack + 24
	frameRegs   = 128 + 176 + 8 // after the address of a fault
	frameSP     = frameRegs + 31*8
	frameState  = frameSP + 16
	frameExtra  = frameState + 16 // records, aligned to 16
	FrameResult = frameRegs       // x0
	FramePC     = frameSP + 8

	recordsRoom = 4096 // of a frame; more lies behind it
	fpMagic     = 0x46508001
	fpSize      = 16 + 32*16
	sveMagic    = 0x53564501
	extraMagic  = 0x45585401
	extraSize   = 32
	recordHead  = 16 // of SVE's record; that of no record, which ends them
)

// noStack are flags that no alternate stack has. They make rt_sigreturn leave the alternate stack alone. They also
// distinguish a leftover frame of ours from a signal's.
const noStack = 0xdead

// HasSignalFrame searches a stack, from an address on, for the frame of a signal handler. It lies below the stack
// pointer that it contains.
func HasSignalFrame(base uint64, stack []byte, _ Gadgets) bool {
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(stack[at:]) }
	for at := int(-base & 15); at+frameExtra+fpSize <= len(stack); at += 16 {
		sp := word(at + frameSP)
		if word(at+frameExtra) == fpMagic|fpSize<<32 && word(at+frameFlags)&0xffffffff != noStack &&
			word(at+128) == 0 && sp >= base+uint64(at)+frameExtra+fpSize {
			return true
		}
	}
	return false
}

// Enter lays out the chain below the thread's stack, and makes the thread begin it when it is released. It must be the
// last call for a stopped thread. Until its last system call, which sets the registers, nothing has changed for the
// thread.
func (h *Held) Enter(mem io.WriterAt, c Chain) error {
	records, err := h.records()
	if err != nil {
		return err
	}
	final := h.Regs
	resume := h.settle(&final, c)
	b := h.builder(h.Regs.Sp&^15, c.Gadgets) // the ABI has no red zone
	last := b.frame(&final, h.Mask, records)
	next := last
	fresh := h.space.fresh()
	for i := len(c.Calls) - 1; i >= 0; i-- {
		r := c.Calls[i].regs(&h.Regs, last, resume)
		r.Regs[link], r.Sp = c.Gadgets.Sigreturn, next
		next = b.frame(&r, c.Mask, fresh)
	}
	if err := b.write(mem); err != nil {
		return err
	}
	enter := h.Regs
	enter.Pc, enter.Sp = c.Gadgets.Sigreturn, next
	enter.Pstate &^= branchType | singleStep
	_, err = regset(unix.PTRACE_SETREGSET, h.TID, ntGeneral, unsafe.Pointer(&enter), unsafe.Sizeof(enter))
	return err
}

// settle turns the registers of an interrupted system call into those with which the thread continues. It returns the
// address after the system call if that is repeated, else 0.
func (h *Held) settle(r *Regs, c Chain) (resume uint64) {
	switch {
	case !h.space.before: // computing, or ended by the kernel with EINTR
		return 0
	case c.EINTR || c.Repeat == nil:
		r.Regs[0] = ^uint64(unix.EINTR) + 1
		r.Pc += svc
		return 0
	}
	copy(r.Regs[:], c.Repeat[:])
	return r.Pc + svc
}

func (c Call) regs(r *Regs, final, resume uint64) Regs {
	out := *r
	for i := range c.Args {
		out.Regs[i] = c.argument(i, final, resume)
	}
	out.Pc, out.Regs[numberAt], out.Regs[29] = c.PC, c.Number, 0
	out.Pstate &^= branchType | singleStep | tagCheck // as at the call of a handler
	return out
}

// frame is what rt_sigreturn reads.
func (b *builder) frame(r *Regs, mask uint64, records []byte) uint64 {
	var f [frameExtra]byte
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(f[off:], v) }
	put(frameFlags, noStack)
	put(frameMask, mask)
	for i, v := range r.Regs {
		put(frameRegs+8*i, v)
	}
	put(frameSP, r.Sp)
	put(FramePC, r.Pc)
	put(frameState, r.Pstate)
	b.push(records, 16, 0)
	at := b.push(f[:], 16, 0)
	b.place(at + frameExtra)
	return at
}

// place writes into the records at an address, if some of them lie behind the kernel's frame, where that is.
func (b *builder) place(at uint64) {
	records := b.at(at)
	if r := records[fpSize:]; binary.LittleEndian.Uint32(r) == extraMagic {
		binary.LittleEndian.PutUint64(r[8:], at+fpSize+extraSize+recordHead)
	}
}

// fresh is the floating-point state of a thread that has none.
func (s *archSpace) fresh() []byte {
	b := s.records[len(s.records)-fpSize-recordHead:]
	clear(b)
	putHead(b, fpMagic, fpSize)
	return b
}

// records returns the thread's floating-point and vector state in the form that a signal frame has it.
func (h *Held) records() ([]byte, error) {
	// struct user_fpsimd_state: the registers, then two words of state, which the frame has before them
	float := h.space.state[:fpSize]
	if _, err := regset(unix.PTRACE_GETREGSET, h.TID, ntFloat, unsafe.Pointer(&float[0]), fpSize); err != nil {
		return nil, fmt.Errorf("read floating-point state: %w", err)
	}
	out := h.space.records[:fpSize]
	putHead(out, fpMagic, fpSize)
	copy(out[8:16], float[32*16:])
	copy(out[16:], float[:32*16])
	sve, err := h.sve()
	if err != nil {
		return nil, err
	}
	end := [recordHead]byte{}
	if len(out)+len(sve)+recordHead <= recordsRoom {
		return append(append(out, sve...), end[:]...), nil
	}
	var extra [extraSize]byte
	putHead(extra[:], extraMagic, extraSize)
	binary.LittleEndian.PutUint32(extra[16:], uint32(len(sve)+recordHead))
	out = append(append(out, extra[:]...), end[:]...)
	return append(append(out, sve...), end[:]...), nil
}

// sve returns the record of SVE's registers: nothing where they hold no more than the floating-point registers do.
func (h *Held) sve() ([]byte, error) {
	x := h.space.state[:]
	n, err := regset(unix.PTRACE_GETREGSET, h.TID, ntSVE, unsafe.Pointer(&x[0]), uintptr(len(x)))
	if err == unix.EINVAL {
		return nil, nil // this processor has none
	}
	if err != nil {
		return nil, fmt.Errorf("read SVE state: %w", err)
	}
	v := (*vectors)(unsafe.Pointer(&x[0]))
	if v.flags&ownFormat == 0 {
		return nil, nil
	}
	// 32 vectors, 16 predicates and the first-fault register, each an eighth of a vector: the set has them as the frame
	length := uint64(v.length)
	size := (vectorHeader + 32*length + 17*length/8 + 15) &^ 15
	if size > n || size > uint64(len(x)) {
		return nil, fmt.Errorf("SVE state of %d bytes for vectors of %d", n, length)
	}
	clear(x[:vectorHeader])
	putHead(x, sveMagic, uint32(size))
	binary.LittleEndian.PutUint16(x[8:], uint16(length))
	return x[:size], nil
}

func putHead(b []byte, magic, size uint32) {
	binary.LittleEndian.PutUint32(b, magic)
	binary.LittleEndian.PutUint32(b[4:], size)
}

// archSpace is what this architecture needs beside space.
type archSpace struct {
	records       [MaxChain]byte // of a frame, and at its end fresh ones
	before, ended bool           // the next instruction makes a system call; the last one's ended with EINTR
	pacMask       uint64
	unfit         string
}

func (s *archSpace) touch() {
	for i := range s.records {
		s.records[i] = 1
	}
}
