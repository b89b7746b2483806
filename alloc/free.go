package alloc

import (
	"errors"
	"fmt"
	"sync"
)

// Free releases one ownership of the block at p; with the last one the block is free. Free(0) does nothing. The error
// is a *MisuseError when p is not a live block of this allocator.
func (a *Allocator) Free(p Ptr) error { return a.free(p, &Request{}) }

// FreeRequest is Free with what the caller assumes about the block: the requested size (0: don't check), its stream
// (only if Size is given), and the thread for events. PyTorch calls its pluggable allocators in this way.
func (a *Allocator) FreeRequest(p Ptr, q Request) error {
	return a.free(p, &q)
}

func (a *Allocator) free(p Ptr, q *Request) error {
	if p == 0 {
		return nil
	}
	stack := q.Stack
	debug := a.debug.Load()
	if debug && stack == 0 && !a.opt.Foreign {
		stack = a.stacks.callers(2)
	}
	s, slot := a.find(p)
	if s == nil {
		err := a.misuse("free", p, ErrDoubleFree)
		err.Stack = a.stacks.frames(stack)
		return err
	}
	id := s.index.id(slot)
	b := &s.blocks.at[id]
	if size := q.Size; size > 0 && (b.requested != size || q.Stream != s.stream) {
		err := &MisuseError{Kind: ErrWrongSize, Op: "free", Ptr: p, Base: p, Size: b.requested, Got: size}
		if b.requested == size {
			err.Kind = ErrWrongStream
		}
		err.AllocStack = a.stacks.frames(b.stack)
		s.mu.Unlock()
		return err
	}
	if b.refs--; b.refs > 0 {
		s.mu.Unlock()
		return nil
	}
	if debug {
		a.ledger.add(p, b.stack, stack)
	}
	waits := b.used && a.streams != nil
	if a.timed.Load() {
		a.noteFree(s, b, stack, q.Thread, !waits)
	}
	var err error
	if waits || !a.r.cached || a.opt.MaxCached > 0 {
		err = a.freeLocked(s, id, slot, waits)
	} else {
		s.disown(id, slot)
		s.recycle(id)
	}
	a.finish(s)
	return err
}

// freeLocked is a free that needs the device lock. The lock is taken before the block changes hands: an operation that
// finds the shard parked may use its state, so no gauge may be half counted then.
func (a *Allocator) freeLocked(s *shard, id blockID, slot int, waits bool) error {
	a.enter(s)
	defer a.mu.Unlock()
	if waits {
		a.countActive(s)
		s.disown(id, slot)
		return a.mark(s, id)
	}
	s.disown(id, slot)
	id = s.recycle(id)
	if a.r.cached {
		return a.trim(s, id)
	}
	return a.releaseUncached(s, id)
}

// releaseUncached gives a block back at once, under a policy without a cache.
func (a *Allocator) releaseUncached(s *shard, id blockID) error {
	if s.kept || a.held > 0 {
		return nil
	}
	return a.releaseBlock(s, id, true)
}

// noteFree records a free; done says that the block is free at once.
func (a *Allocator) noteFree(s *shard, b *block, stack StackID, thread uint32, done bool) {
	now, e := a.stamp(s), s.ring.next()
	e.time, e.addr, e.size, e.span = now, b.addr, b.requested, now-b.since
	e.stack, e.thread, e.kind, e.hit = stack, thread, EventFree, done
}

// find returns the shard, locked, that has p as a live block, with its slot in the index; nil if there is none.
func (a *Allocator) find(p Ptr) (*shard, int) {
	all := *a.shards.Load()
	if len(all) != 1 {
		n := a.dir.owner(uint64(p))
		if n == mixed {
			return findAmong(all, p)
		}
		if n == 0 || int(n) > len(all) { // no shard's, or of an allocator that is closed
			return nil, 0
		}
		all = all[n-1:]
	}
	s := all[0]
	s.mu.Lock()
	slot := s.index.slot(s.blocks.at, uint64(p))
	if slot < 0 {
		s.mu.Unlock()
		return nil, 0
	}
	return s, slot
}

func findAmong(all []*shard, p Ptr) (*shard, int) {
	for _, s := range all {
		s.mu.Lock()
		if slot := s.index.slot(s.blocks.at, uint64(p)); slot >= 0 {
			return s, slot
		}
		s.mu.Unlock()
	}
	return nil, 0
}

// Retain adds an owner to the live block at p, which then needs one more Free.
func (a *Allocator) Retain(p Ptr) error {
	s, slot := a.find(p)
	if s == nil {
		return a.misuse("retain", p, ErrRetainAfterFree)
	}
	s.blocks.at[s.index.id(slot)].refs++
	s.mu.Unlock()
	return nil
}

// RecordStream records that work on another stream uses the block at p. Once freed, the block is not handed out before
// the device has done the work that was queued there at the time of the free.
func (a *Allocator) RecordStream(p Ptr, stream Stream) error {
	if p == 0 || a.streams == nil {
		return nil
	}
	s, slot := a.find(p)
	if s == nil {
		return a.misuse("record_stream", p, ErrDoubleFree)
	}
	defer s.mu.Unlock()
	if stream == s.stream {
		return nil
	}
	id := s.index.id(slot)
	s.blocks.at[id].used = true
	for _, u := range s.uses[id] {
		if u == stream {
			return nil
		}
	}
	if s.uses == nil {
		s.uses = map[blockID][]Stream{}
	}
	s.uses[id] = append(s.uses[id], stream)
	return nil
}

// mark leaves a block without owner pending until the device has passed marks on the streams that use it. The caller
// holds s and the device lock.
func (a *Allocator) mark(s *shard, id blockID) error {
	uses := s.uses[id]
	delete(s.uses, id)
	b := &s.blocks.at[id]
	b.state, b.used = pending, false
	if a.held > 0 { // a mark would become part of the capture
		b.refs++
		a.deferred = append(a.deferred, deferredMarks{s, id, uses})
		return nil
	}
	return a.markOn(s, id, uses)
}

func (a *Allocator) markOn(s *shard, id blockID, uses []Stream) error {
	b := &s.blocks.at[id]
	for _, u := range uses {
		m, err := a.streams.Record(u)
		if err == nil {
			b.refs++
			s.queue(u, pendingMark{m, id})
			continue
		}
		if werr := a.streams.WaitAll(); werr != nil { // whether the block is idle can no longer be found out
			b.refs++ // for ever: the block is lost, the rest is intact
			return fmt.Errorf("free %#x: mark stream %#x: %w", b.addr, uint64(u), errors.Join(err, werr))
		}
	}
	if b.refs == 0 {
		return a.unpend(s, id)
	}
	return nil
}

// unpend recycles a pending block that no stream uses any more. The caller holds the device lock, and s is stopped.
func (a *Allocator) unpend(s *shard, id blockID) error {
	if a.timed.Load() {
		b := &s.blocks.at[id]
		now := a.stamp(s)
		*s.ring.next() = record{now, b.addr, b.requested, now - b.since, b.stack, 0, EventFreed, false}
	}
	id = s.recycle(id)
	if a.r.cached {
		return nil
	}
	return a.releaseUncached(s, id)
}

func (s *shard) queue(u Stream, m pendingMark) {
	for i := range s.waiting {
		if s.waiting[i].stream == u {
			s.waiting[i].marks = append(s.waiting[i].marks, m)
			return
		}
	}
	s.waiting = append(s.waiting, markQueue{u, []pendingMark{m}})
}

// passMarks recycles the blocks whose marks the device has passed. The caller holds the shard, not the device lock.
func (a *Allocator) passMarks(s *shard) error {
	a.enter(s)
	defer a.mu.Unlock()
	if a.held > 0 { // nor may the device be queried for one
		return nil
	}
	return a.passMarksLocked(s, false)
}

// passMarksLocked checks each stream's queue from the front; with wait it waits for all of them. The caller holds the
// device lock, and s is stopped.
func (a *Allocator) passMarksLocked(s *shard, wait bool) error {
	var errs []error
	keep := s.waiting[:0]
	for _, q := range s.waiting {
		n, err := a.passQueue(s, q.marks, wait)
		if err != nil {
			errs = append(errs, fmt.Errorf("ask for a mark on stream %#x: %w", uint64(q.stream), err))
		}
		if q.marks = q.marks[n:]; len(q.marks) > 0 {
			keep = append(keep, q)
		}
	}
	s.waiting = keep
	return errors.Join(errs...)
}

func (a *Allocator) passQueue(s *shard, marks []pendingMark, wait bool) (int, error) {
	for n, m := range marks {
		done := true
		var err error
		if wait {
			err = a.streams.Wait(m.mark)
		} else {
			done, err = a.streams.Query(m.mark)
		}
		if err != nil || !done {
			return n, err
		}
		if err := a.streams.Forget(m.mark); err != nil {
			return n, err
		}
		b := &s.blocks.at[m.id]
		if b.refs--; b.refs == 0 {
			if err := a.unpend(s, m.id); err != nil {
				return n + 1, err
			}
		}
	}
	return len(marks), nil
}

// misuse describes p, which is not a live block's address. gone is the kind when p is in a block that was live once.
func (a *Allocator) misuse(op string, p Ptr, gone error) *MisuseError {
	e := &MisuseError{Kind: ErrUnknownPointer, Op: op, Ptr: p}
	a.mu.Lock()
	thaw := a.freeze(nil)
	defer a.mu.Unlock()
	defer thaw()
	for _, s := range *a.shards.Load() {
		id := s.covering(uint64(p))
		if id == 0 {
			continue
		}
		b := &s.blocks.at[id]
		if b.state == live {
			e.Kind, e.Base, e.Size = ErrInteriorPointer, Ptr(b.addr), b.size
			e.AllocStack = a.stacks.frames(b.stack)
			return e
		}
		if b.state == free || b.state == pending {
			e.Kind, e.Base, e.Size = gone, Ptr(b.addr), b.size
		}
		break
	}
	if f, ok := a.ledger.find(p); ok {
		e.Kind = gone
		e.AllocStack, e.FreeStack = a.stacks.frames(f.alloc), a.stacks.frames(f.free)
	}
	return e
}

// covering finds the block that contains an address, by a walk over the segments: errors may be slow.
func (s *shard) covering(addr uint64) blockID {
	for i := range s.segs.at {
		seg := &s.segs.at[i]
		if !seg.used || addr < seg.addr || addr-seg.addr >= uint64(seg.size) {
			continue
		}
		for id := seg.first; id != 0; id = s.blocks.at[id].next {
			if b := &s.blocks.at[id]; addr-b.addr < uint64(b.size) {
				return id
			}
		}
	}
	return 0
}

// ledger remembers the newest frees in debug mode, for the text of a double free.
type ledger struct {
	mu    sync.Mutex
	freed map[Ptr]freedBlock
	order []Ptr // a ring
	next  int
}

type freedBlock struct{ alloc, free StackID }

const maxLedger = 1 << 16 // 3 MiB; most double frees are of a block freed shortly before

func (l *ledger) add(p Ptr, alloc, free StackID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freed == nil {
		l.freed = map[Ptr]freedBlock{}
	}
	if _, again := l.freed[p]; !again {
		if len(l.order) < maxLedger {
			l.order = append(l.order, p)
		} else {
			delete(l.freed, l.order[l.next])
			l.order[l.next] = p
			l.next = (l.next + 1) % maxLedger
		}
	}
	l.freed[p] = freedBlock{alloc, free}
}

func (l *ledger) find(p Ptr) (freedBlock, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f, ok := l.freed[p]
	return f, ok
}

// SetDebug turns the stacks of allocations and frees, and the ledger of freed blocks, on or off. A call then costs
// about 2 µs more, and a MisuseError says where the block was allocated and freed.
func (a *Allocator) SetDebug(on bool) { a.debug.Store(on) }
