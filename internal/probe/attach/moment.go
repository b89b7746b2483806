package attach

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/probe/attach/image"
	"github.com/memgauge/memgauge/internal/probe/attach/ptrace"
)

// moment is what a thread is doing, and what can be done with it there.
type moment struct {
	doing  string
	ready  bool       // it may make a system call, and continues after it
	open   bool       // and functions of the C library may be called in it
	python bool       // the interpreter itself waits: it handles EINTR (PEP 475), and then checks for signals
	mask   uint64     // signals that it blocks
	begun  bool       // EINTR, from a call that may not have begun, would mislead its caller: see wait
	again  *[6]uint64 // see ptrace.Chain.Repeat
}

// glance reads from the kernel what a thread is doing, without stopping it. Where the kernel doesn't say, the thread
// must be stopped.
func (t *Target) glance(tid int) moment {
	text, err := os.ReadFile(t.path(fmt.Sprintf("task/%d/syscall", tid)))
	f := strings.Fields(string(text))
	if err != nil || len(f) == 0 || f[0] == "running" {
		return moment{doing: "computing", ready: true}
	}
	nr, err := strconv.ParseInt(f[0], 10, 64)
	if err != nil || nr < 0 || len(f) < 8 {
		return moment{doing: "blocked outside a system call"}
	}
	var args [6]uint64
	for i := range args {
		args[i], _ = strconv.ParseUint(strings.TrimPrefix(f[i+1], "0x"), 16, 64)
	}
	return inCall(nr, args)
}

// inCall examines a thread in a system call.
func inCall(nr int64, args [6]uint64) moment {
	w, ok := waits[nr]
	if !ok {
		name := systemCalls[nr]
		if name == "" {
			name = fmt.Sprintf("system call %d", nr)
		}
		return moment{doing: "in " + name}
	}
	m := moment{doing: "in " + w.name}
	if w.fits != nil && !w.fits(args) {
		m.doing += ", waiting for a lock"
		return m
	}
	m.ready, m.open, m.begun = true, true, w.begun != nil && w.begun(args)
	if w.repeat != nil {
		m.again = w.repeat(args)
	}
	return m
}

// stackNeed is room for a chain (at most ptrace.MaxChain) and for pthread_create, which needs some KiB.
const stackNeed = ptrace.MaxChain + 48<<10

// examine tells whether code may run in a stopped thread, and what the thread is doing.
func (t *Target) examine(h *ptrace.Held) (moment, error) {
	if unfit := h.Unfit(); unfit != "" {
		return moment{doing: unfit}, nil
	}
	if stack, ok := t.maps.At(h.Regs.SP()); h.TID == t.PID && (!ok || stack.Path != "[stack]") {
		return moment{doing: "on a stack of its own"}, nil
	} else if stack.Hi-h.Regs.SP()+stackNeed > t.stackLimit {
		return moment{doing: "at the end of its stack"}, nil
	}
	if pending, err := h.SignalPending(); err != nil || pending {
		return moment{doing: "about to take a signal"}, err
	}
	// It stops there when a signal arrived together with our interrupt. Its registers then still describe the system
	// call that the handler has interrupted (arch/x86/kernel/signal_64.c leaves orig_ax alone). Another thread may hold
	// a lock and wait for that handler: glibc's setuid waits in this way for every thread. Our work in this thread
	// would wait for that lock.
	if in, err := h.BeginsHandler(t.mem, t.gadgets); err != nil || in {
		return moment{doing: "about to handle a signal"}, err
	}
	var err error
	if nr, args, ok := h.Syscall(); ok {
		m := inCall(nr, args)
		if !m.open && !h.Interrupted() {
			m.ready = true // it has ended by itself
		}
		m.python, err = t.calledByPython(h)
		if m.begun && !m.python {
			m.doing, m.ready, m.open = m.doing+", perhaps not yet", false, false
		}
		return m, err
	}
	if h.InCriticalSection(t.mem) {
		return moment{doing: "in a restartable sequence"}, nil
	}
	if in, err := t.inHandler(h); err != nil || in {
		return moment{doing: "in a signal handler"}, err
	}
	return t.computing(h.Regs.PC()), nil
}

// maxCaller is how far up the stack we search for the return address of a system call's caller; the C library's
// functions for blocking calls have small frames.
const maxCaller = 2 << 10

// calledByPython reports whether the interpreter or one of its own modules made the system call: then the first return
// address outside the C library is theirs.
func (t *Target) calledByPython(h *ptrace.Held) (bool, error) {
	sp := (h.Regs.SP() + 7) &^ 7
	stack, ok := t.maps.At(sp)
	if !ok {
		return false, nil
	}
	b, err := h.Stack(t.mem, sp, min(maxCaller, stack.Hi-sp))
	if err != nil {
		return false, err
	}
	if to, ok := h.Return(); ok {
		if python, ok := t.callerAt(to); ok {
			return python, nil
		}
	}
	for ; len(b) >= 8; b = b[8:] {
		if python, ok := t.callerAt(h.Code(binary.LittleEndian.Uint64(b))); ok {
			return python, nil
		}
	}
	return false, nil
}

// callerAt tells whether an address lies in the interpreter or one of its own modules; not ok if it lies in the C
// library or in no code.
func (t *Target) callerAt(addr uint64) (python, ok bool) {
	at, ok := t.maps.At(addr)
	if !ok || !at.Executable() || at.Inode == 0 || isLibc(at.Path) {
		return false, false
	}
	return at.Path == t.Library || strings.Contains(at.Path, "/lib-dynload/"), true
}

// computing examines a thread that is not in a system call. Outside the C library and what replaces its malloc, our
// code may start a thread: the code there could do so itself, since it holds none of the library's locks.
func (t *Target) computing(pc uint64) moment {
	at, ok := t.maps.At(pc)
	m := moment{doing: "running Python", ready: true, open: true}
	switch {
	case !ok:
		return moment{doing: "in code that was just loaded", ready: true}
	case isLibc(at.Path):
		return moment{doing: "in the C library", ready: true}
	case at.Path != t.Library:
		m.doing = "in " + codeName(at)
	}
	return m
}

// inHandler tells whether the thread is in a signal handler: then the code below it may hold any lock. A signal's frame
// begins with the address that the handler returns to; ptrace.MaxStack is more than what a handler that does anything
// needs.
func (t *Target) inHandler(h *ptrace.Held) (bool, error) {
	sp := h.Regs.SP()
	stack, ok := t.maps.At(sp)
	if !ok {
		return true, nil
	}
	sp = (sp + 7) &^ 7
	b, err := h.Stack(t.mem, sp, stack.Hi-sp)
	if err != nil {
		return false, err
	}
	return ptrace.HasSignalFrame(sp, b, t.gadgets), nil
}

func codeName(m image.Mapping) string {
	if m.Path == "" {
		return "generated code"
	}
	return filepath.Base(m.Path)
}
