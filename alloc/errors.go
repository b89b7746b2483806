package alloc

import (
	"errors"
	"fmt"
	"strings"
)

// Kinds of wrong calls. Each is a different mistake of the caller's; none changes the allocator's state.
var (
	ErrDoubleFree     = errors.New("double free")     // the block was freed before
	ErrUnknownPointer = errors.New("unknown pointer") // no segment of this allocator has that address
	// not the address that Alloc returned, but one after it
	ErrInteriorPointer = errors.New("pointer into a block")
	// FreeSized with a size other than the requested one
	ErrWrongSize = errors.New("wrong size")
	// FreeSized with a stream other than the requested one
	ErrWrongStream     = errors.New("wrong stream")
	ErrRetainAfterFree = errors.New("retain after free")          // Retain of a block that has no owner left
	ErrBadSize         = errors.New("size out of range")          // negative, or beyond what any device has
	ErrClosed          = errors.New("allocator is closed")        // after Close
	ErrTooManyStreams  = errors.New("too many streams")           // more than maxStreams
	ErrUnsupported     = errors.New("the driver can't")           // an option needs a VirtualMemory or Streams driver
	ErrOutOfMemory     = errors.New("device memory is exhausted") // every OOMError is one
)

// MisuseError is a wrong call, with what is known about the block. errors.Is finds the kind.
type MisuseError struct {
	Kind error  // ErrDoubleFree, ErrUnknownPointer, …
	Op   string // "free", "retain", "record_stream"
	Ptr  Ptr    // the argument
	Base Ptr    // the beginning of the block that contains Ptr; 0 if there is none
	Size int64  // that block's size in bytes; for ErrWrongSize the requested size
	Got  int64  // ErrWrongSize: the size that the caller gave
	// AllocStack and FreeStack are where the block was allocated and freed; known only in debug mode.
	AllocStack, FreeStack []Frame
	Stack                 []Frame // of this call, as far as it is known
}

// Error names the operation, the address and the kind; in debug mode also the two stacks, one frame in each line.
func (e *MisuseError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %#x: %s", e.Op, uint64(e.Ptr), e.Kind)
	switch e.Kind {
	case ErrInteriorPointer:
		fmt.Fprintf(&b, ": %d bytes into the block at %#x of %d bytes", e.Ptr-e.Base, uint64(e.Base), e.Size)
	case ErrWrongSize:
		fmt.Fprintf(&b, ": the block has %d bytes, not %d", e.Size, e.Got)
	}
	writeStack(&b, "allocated at", e.AllocStack)
	writeStack(&b, "freed at", e.FreeStack)
	writeStack(&b, "freed again at", again(e))
	return b.String()
}

// Unwrap returns the kind.
func (e *MisuseError) Unwrap() error { return e.Kind }

// again is the place where a block was freed once more.
func again(e *MisuseError) []Frame {
	if e.Op == "free" && e.Kind == ErrDoubleFree {
		return e.Stack
	}
	return nil
}

func writeStack(b *strings.Builder, title string, frames []Frame) {
	if len(frames) == 0 {
		return
	}
	b.WriteString("\n  " + title)
	for _, f := range frames {
		fmt.Fprintf(b, "\n    %s (%s:%d)", f.Func, f.File, f.Line)
	}
}
