//go:build !amd64 && !arm64

package ptrace

import (
	"errors"
	"io"
)

// On this architecture no chain can be laid out: package attach finds no machine that it knows, and holds no thread.
// What stands here lets the rest of the program be built.

var errArchitecture = errors.New("the machine code of attaching is for x86-64 and aarch64 only")

// Regs are a thread's general registers, none of which are read.
type Regs struct{}

func (r *Regs) get(int) error { return errArchitecture }

func (r *Regs) PC() uint64 { return 0 }
func (r *Regs) SP() uint64 { return 0 }

// Syscall returns no call.
func (h *Held) Syscall() (nr int64, args [6]uint64, ok bool) { return 0, args, false }

// Unfit says that no chain is known.
func (h *Held) Unfit() string { return "on a processor that is not known" }

func (h *Held) Interrupted() bool                                { return false }
func (h *Held) Return() (uint64, bool)                           { return 0, false }
func (h *Held) Code(word uint64) uint64                          { return word }
func (h *Held) BeginsHandler(io.ReaderAt, Gadgets) (bool, error) { return false, errArchitecture }
func (h *Held) readMore()                                        {}

type archSpace struct{}

func (s *archSpace) touch() {}

// Gadgets are pieces of code in a C library.
type Gadgets struct {
	Sigreturn uint64
	Syscall   uint64
}

// FindGadgets finds none.
func FindGadgets(uint64, []byte) Gadgets { return Gadgets{} }

// HasSignalFrame knows no frame.
func HasSignalFrame(uint64, []byte, Gadgets) bool { return false }

// Enter refuses.
func (h *Held) Enter(io.WriterAt, Chain) error { return errArchitecture }
