package alloc

import (
	"encoding/binary"
	"hash/maphash"
	"runtime"
	"slices"
	"sync"
)

// StackID names an interned stack. 0 is none.
type StackID uint32

// Frame is a line of a stack, innermost first.
type Frame struct {
	File string
	Line int
	Func string
}

const (
	maxStacks = 1 << 16 // distinct ones; a large training has some thousands of allocation sites
	maxFrames = 64      // of a stack, the innermost; deeper ones are cut
)

// stacks keeps each distinct stack once. It has its own lock, which is taken before the allocator's.
type stacks struct {
	mu      sync.Mutex
	seed    maphash.Seed
	byHash  map[uint64][]StackID
	entries []stackEntry // entries[id-1]
	refused uint64       // stacks that did not fit into the table
}

type stackEntry struct {
	pcs    []uintptr // of Go code, or
	frames []Frame   // given by the caller
}

func newStacks() *stacks {
	return &stacks{seed: maphash.MakeSeed(), byHash: map[uint64][]StackID{}}
}

func (t *stacks) intern(hash uint64, same func(stackEntry) bool, make func() stackEntry) StackID {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range t.byHash[hash] {
		if same(t.entries[id-1]) {
			return id
		}
	}
	if len(t.entries) >= maxStacks {
		t.refused++
		return 0
	}
	t.entries = append(t.entries, make())
	id := StackID(len(t.entries))
	t.byHash[hash] = append(t.byHash[hash], id)
	return id
}

// callers interns the stack of Go code that called into the package; skip is the number of frames to leave out.
func (t *stacks) callers(skip int) StackID {
	var buf [maxFrames]uintptr
	pcs := buf[:runtime.Callers(skip+2, buf[:])]
	var h maphash.Hash
	h.SetSeed(t.seed)
	var word [8]byte
	for _, pc := range pcs {
		binary.LittleEndian.PutUint64(word[:], uint64(pc))
		_, _ = h.Write(word[:]) // never fails
	}
	return t.intern(h.Sum64(),
		func(e stackEntry) bool { return slices.Equal(e.pcs, pcs) },
		func() stackEntry { return stackEntry{pcs: slices.Clone(pcs)} })
}

func (t *stacks) framesOf(frames []Frame) StackID {
	if len(frames) == 0 {
		return 0
	}
	frames = frames[:min(len(frames), maxFrames)]
	var h maphash.Hash
	h.SetSeed(t.seed)
	for _, f := range frames {
		maphash.WriteComparable(&h, f)
	}
	return t.intern(h.Sum64(),
		func(e stackEntry) bool { return slices.Equal(e.frames, frames) },
		func() stackEntry { return stackEntry{frames: slices.Clone(frames)} })
}

// frames returns the stack's lines, nil for 0.
func (t *stacks) frames(id StackID) []Frame {
	t.mu.Lock()
	if id == 0 || int(id) > len(t.entries) {
		t.mu.Unlock()
		return nil
	}
	e := t.entries[id-1]
	t.mu.Unlock()
	if e.frames != nil {
		return slices.Clone(e.frames)
	}
	var out []Frame
	for it := runtime.CallersFrames(e.pcs); ; {
		f, more := it.Next()
		if f.Function != "" {
			out = append(out, Frame{f.File, f.Line, f.Function})
		}
		if !more {
			return out
		}
	}
}
