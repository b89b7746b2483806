//go:build !amd64

package ptrace

import (
	"errors"
	"io"
)

// On this architecture no chain can be laid out: package attach finds no machine that it knows, and holds no thread.
// What stands here lets the rest of the program be built.

var errArchitecture = errors.New("the machine code of attaching is for x86-64 only")

// Regs are a thread's general registers, none of which are read.
type Regs struct{}

func (r *Regs) get(int) error { return errArchitecture }

func (r *Regs) PC() uint64 { return 0 }
func (r *Regs) SP() uint64 { return 0 }

// Syscall returns no call.
func (r *Regs) Syscall() (nr int64, args [6]uint64, ok bool) { return 0, args, false }

// LongMode tells whether the thread runs code for which chains are known.
func (r *Regs) LongMode() bool { return false }

func (r *Regs) Interrupted() bool { return false }

// Gadgets are pieces of code in a C library.
type Gadgets struct {
	Sigreturn uint64
	Syscall   uint64
}

// FindGadgets finds none.
func FindGadgets(uint64, []byte) (Gadgets, bool) { return Gadgets{}, false }

// Call is a step of a chain.
type Call struct {
	PC     uint64
	Number uint64
	Args   [6]uint64
}

// Chain is the work that Enter would lay out.
type Chain struct {
	Gadgets Gadgets
	Calls   []Call
	Mask    uint64
	EINTR   bool
	Repeat  *[6]uint64
}

// Arguments of a Call that Enter would fill in.
const (
	FinalFrame = 0
	ResumePC   = 0
)

// MaxChain is the memory for a chain that no one lays out.
const MaxChain = 1

// ErrNoRoom means that the thread's stack has no room for a chain.
var ErrNoRoom = errors.New("no room on the thread's stack")

// HasSignalFrame knows no frame.
func HasSignalFrame([]byte, Gadgets) bool { return false }

// Enter refuses.
func (h *Held) Enter(io.WriterAt, Chain) error { return errArchitecture }

func stateEnds() {}
