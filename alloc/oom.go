package alloc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
)

const (
	maxCallbackRounds = 3  // how often a callback may say "try again" for one request
	oomSites          = 8  // live sites in an OOMError, the largest
	oomEvents         = 10 // last events in an OOMError
)

// OOMError is a request that could not be served, with what held the memory at that instant. The allocator's state is
// as before the request, except for what was released for it.
type OOMError struct {
	Device    int
	Requested int64 // bytes that the caller requested
	Size      int64 // bytes of the block that would serve it
	Stream    Stream

	Total, Limit, DeviceFree          int64 // of the device; Limit is the cap on reserved bytes
	Allocated, Used, Active, Reserved int64 // of this allocator, in bytes; Used is what the owners requested
	LargestHole                       int64 // largest free block that the stream could use
	Stranded                          []StrandedPool
	AfterCompaction                   int64 // free bytes that one block could have if all blocks moved together
	Sites                             []Site
	LastEvents                        []Event
	frames                            func(StackID) []Frame
}

// StrandedPool is free memory that requests of another stream or size can't use and that can't be given back to the
// driver.
type StrandedPool struct {
	Stream  Stream
	Large   bool
	Bytes   int64
	Blocks  int
	Largest int64
}

// Site is the live memory of one allocation stack.
type Site struct {
	Stack StackID
	Bytes int64
	Count int
}

// Is makes errors.Is(err, ErrOutOfMemory) and errors.Is(err, ErrNoMemory) true.
func (e *OOMError) Is(target error) bool { return target == ErrOutOfMemory || target == ErrNoMemory }

// possible reports whether releasing memory could serve the request at all.
func (e *OOMError) possible() bool { return e.Size <= min(e.Total, e.Limit) }

// Error describes it in full, over several lines; the first contains what programs search for.
func (e *OOMError) Error() string {
	var b strings.Builder
	size := func(n int64) string { return units.Bytes(max(n, 0)).String() }
	fmt.Fprintf(&b, "CUDA OOM: CUDA out of memory. Tried to allocate %s (a block of %s) on device %d.",
		size(e.Requested), size(e.Size), e.Device)
	fmt.Fprintf(&b, "\n  device: %s, of which %s free; this allocator may reserve %s", size(e.Total),
		size(e.DeviceFree),
		size(min(e.Limit, e.Total)))
	fmt.Fprintf(&b, "\n  reserved %s, allocated %s, asked for by their owners %s; largest hole for this request %s",
		size(e.Reserved), size(e.Allocated), size(e.Used), size(e.LargestHole))
	if !e.possible() {
		b.WriteString("\n  the request is larger than all that may be reserved: no setting can serve it")
	} else if e.AfterCompaction >= e.Size && e.Reserved-e.Allocated < e.Size {
		fmt.Fprintf(&b, "\n  not fragmentation: the capacity is too small. %s is left, less than the segment that "+
			"this allocator takes from the driver for it", size(min(e.Limit, e.Total)-e.Reserved))
	} else if e.AfterCompaction >= e.Size {
		fmt.Fprintf(&b, "\n  fragmentation: with all blocks moved together %s would be free in one piece, enough; "+
			"try policy:vmm, or expandable_segments:True", size(e.AfterCompaction))
	} else {
		fmt.Fprintf(&b, "\n  not fragmentation: even with all blocks moved together only %s would be free in one piece",
			size(e.AfterCompaction))
	}
	for _, p := range e.Stranded {
		pool := "small"
		if p.Large {
			pool = "large"
		}
		fmt.Fprintf(&b, "\n  stranded in the %s pool of stream %#x: %s in %d blocks, the largest %s",
			pool, uint64(p.Stream), size(p.Bytes), p.Blocks, size(p.Largest))
	}
	e.writeSites(&b)
	for _, ev := range e.LastEvents {
		fmt.Fprintf(&b, "\n  event: %s %s", ev.Kind, size(ev.Size))
		if ev.Kind == EventOOM {
			fmt.Fprintf(&b, " with %s left", size(int64(ev.Addr)))
		} else {
			fmt.Fprintf(&b, " at %#x", ev.Addr)
		}
		fmt.Fprintf(&b, " on stream %#x", uint64(ev.Stream))
	}
	return b.String()
}

func (e *OOMError) writeSites(b *strings.Builder) {
	for _, s := range e.Sites {
		where := "unknown site (set_memory_debug records stacks)"
		if frames := e.frames(s.Stack); len(frames) > 0 {
			where = fmt.Sprintf("%s (%s:%d)", frames[0].Func, frames[0].File, frames[0].Line)
		}
		fmt.Fprintf(b, "\n  live: %s in %d blocks from %s", units.Bytes(s.Bytes).String(), s.Count, where)
	}
}

// OnOOM adds a callback that runs when a request can't be served after everything cached was released. It runs without
// any lock held and may free blocks. When one returns true, the request is tried again.
func (a *Allocator) OnOOM(f func(*OOMError) bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onOOM = append(slices.Clone(a.onOOM), f)
}

func anyCallback(fs []func(*OOMError) bool, e *OOMError) bool {
	again := false
	for _, f := range fs {
		again = f(e) || again
	}
	return again
}

func (a *Allocator) countOOM(s *shard, e *OOMError, q Request) {
	a.mu.Lock()
	a.ooms++
	a.mu.Unlock()
	if a.timed.Load() {
		s.mu.Lock()
		*s.ring.next() = record{time: a.stamp(s), addr: uint64(e.DeviceFree), size: q.Size, stack: q.Stack,
			thread: q.Thread, kind: EventOOM}
		s.mu.Unlock()
	}
}

// outOfMemory describes the state. The caller holds s and the device lock.
func (a *Allocator) outOfMemory(s *shard, size int64, q Request) *OOMError {
	thaw := a.freeze(s)
	defer thaw()
	all := *a.shards.Load()
	e := &OOMError{
		Device: a.opt.Device, Requested: q.Size, Size: size, Stream: q.Stream,
		Total: a.total, Limit: a.limit, Reserved: a.reserved, frames: a.stacks.frames,
	}
	e.DeviceFree, _, _ = a.drv.MemInfo() // unknown is 0: it is only for the text
	for _, o := range all {
		o.mirror()
	}
	sums := sumOf(all)
	e.Allocated = sums[int(allocatedBytes)*numScopes]
	e.Used = sums[int(usedBytes)*numScopes]
	e.Active = sums[int(activeBytes)*numScopes]
	if id := s.poolOf(a.r.large(q.Size, size)).last(s.blocks.at); id != 0 {
		e.LargestHole = s.blocks.at[id].size
	}
	e.AfterCompaction = min(a.limit, a.total, e.Reserved+e.DeviceFree) - e.Active
	sites, times := map[StackID]*Site{}, a.clock.timeline()
	for _, o := range all {
		for i := range o.pools {
			e.addStranded(o, &o.pools[i])
		}
		o.addSites(sites)
		v := o.ring.newest(o.stream, oomEvents)
		e.LastEvents = v.events(e.LastEvents, &times)
	}
	e.Sites = largestSites(sites)
	slices.SortStableFunc(e.LastEvents, func(x, y Event) int { return cmp.Compare(x.Time, y.Time) })
	e.LastEvents = slices.Clone(e.LastEvents[max(0, len(e.LastEvents)-oomEvents):])
	return e
}

func (e *OOMError) addStranded(s *shard, p *pool) {
	if p.count == 0 {
		return
	}
	e.Stranded = append(e.Stranded, StrandedPool{s.stream, p.large, p.free(s.blocks.at), p.count,
		s.blocks.at[p.last(s.blocks.at)].size})
}

func (s *shard) addSites(sites map[StackID]*Site) {
	for i := range s.blocks.at {
		if b := &s.blocks.at[i]; b.state == live {
			site := sites[b.stack]
			if site == nil {
				site = &Site{Stack: b.stack}
				sites[b.stack] = site
			}
			site.Bytes += b.size
			site.Count++
		}
	}
}

func largestSites(sites map[StackID]*Site) []Site {
	out := make([]Site, 0, len(sites))
	for _, s := range sites {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(x, y Site) int {
		return cmp.Or(cmp.Compare(y.Bytes, x.Bytes), cmp.Compare(x.Stack, y.Stack))
	})
	return out[:min(len(out), oomSites)]
}
