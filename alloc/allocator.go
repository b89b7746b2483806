package alloc

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxStreams is far beyond what programs make (PyTorch has pools of 32 for each priority). A caller that invents a
// stream for each call gets an error, instead of filling memory with shards.
const maxStreams = 4096

// Allocator hands out a device's memory. Its methods may be called from any goroutine. Each stream has a shard with its
// own lock; one device lock guards what they share. Order of locks: a shard's, then the device's. An operation that
// needs all shards to be stopped holds the device lock and freezes them.
type Allocator struct {
	r       rules
	opt     Options
	drv     Driver
	virtual VirtualMemory // nil if the driver has none
	streams Streams       // nil if the driver has none
	clock   clock
	timed   atomic.Bool
	debug   atomic.Bool
	stacks  *stacks
	ledger  ledger
	dir     directory
	shards  atomic.Pointer[[]*shard]
	named   sync.Map // owner → *shard, if there are more than a few
	totals  totals

	mu       sync.Mutex // the device lock: guards all below, and every call of the driver
	closed   bool
	total    int64 // bytes of the device
	limit    int64 // cap on reserved bytes
	reserved int64
	high     int64            // the most bytes that were ever allocated
	peak     [numGauges]int64 // of the sums since the last mark; with one shard its limits are the peak
	windows  []*Window        // [0] is the window that Stats reports
	driven   DriverCalls
	retries  uint64
	ooms     uint64
	syncs    uint64
	onOOM    []func(*OOMError) bool
	held     int // private pools with allocations in progress: see HoldPool
	pools    map[PoolID]int
	deferred []deferredMarks
}

// hitTimings: one of so many hits is timed, the first one too; the others carry the last measured duration. A hit takes
// a fraction of a microsecond, of which another reading of the clock would be a tenth. Every miss is timed, and with
// debug on every hit.
const hitTimings = 16

// DriverCalls counts the calls of the driver since the start.
type DriverCalls struct {
	Alloc, Free, Map, Unmap uint64
}

// Request is an allocation with what is known about its caller.
type Request struct {
	Size   int64 // bytes
	Stream Stream
	Thread uint32  // kept in events
	Stack  StackID // kept in events and with the block; 0 with debug on: taken from the Go stack
	Pool   PoolID  // 0 is the shared pool
}

// New makes an allocator on a device. The driver must do what the options need (ErrUnsupported).
func New(d Driver, o Options) (*Allocator, error) {
	if err := o.check(); err != nil {
		return nil, fmt.Errorf("new allocator: %w", err)
	}
	a := &Allocator{r: makeRules(&o), opt: o, drv: d, stacks: newStacks(), limit: noLimit}
	a.virtual, _ = d.(VirtualMemory)
	a.streams, _ = d.(Streams)
	if err := a.fitRules(); err != nil {
		return nil, fmt.Errorf("new allocator: %w", err)
	}
	_, total, err := d.MemInfo()
	if err != nil {
		return nil, fmt.Errorf("new allocator: size of the device: %w", err)
	}
	a.total = total
	a.clock = newClock(o.Clock)
	a.timed.Store(o.EventCapacity > 0)
	a.shards.Store(&[]*shard{})
	a.windows = []*Window{{a: a}}
	if o.MemoryFraction > 0 {
		a.limit = int64(o.MemoryFraction * float64(total))
	}
	a.SetDebug(o.Debug)
	if err := a.warmUp(o.WarmUp); err != nil {
		return nil, fmt.Errorf("new allocator: %w", errors.Join(err, a.Close()))
	}
	return a, nil
}

func (a *Allocator) fitRules() error {
	if !a.r.virtual {
		return nil
	}
	if a.virtual == nil {
		return fmt.Errorf("%w map virtual memory, which the policy %s needs", ErrUnsupported, a.r.policy)
	}
	for i := range a.r.page {
		a.r.page[i] = roundUp(a.r.page[i], a.virtual.Granularity())
	}
	return nil
}

// Policy returns the policy that follows from the options.
func (a *Allocator) Policy() Policy { return a.r.policy }

// Alloc returns size bytes for use on the stream. Size 0 is address 0. The error is an *OOMError when memory has run
// out.
func (a *Allocator) Alloc(size int64, s Stream) (Ptr, error) {
	return a.AllocRequest(Request{Size: size, Stream: s})
}

// AllocRequest is Alloc with the caller's thread and stack.
func (a *Allocator) AllocRequest(q Request) (Ptr, error) {
	if q.Size <= 0 || q.Size > maxRequest {
		if q.Size == 0 {
			return 0, nil
		}
		return 0, fmt.Errorf("allocate %d bytes: %w", q.Size, ErrBadSize)
	}
	if q.Stack == 0 && a.debug.Load() && !a.opt.Foreign {
		q.Stack = a.stacks.callers(1)
	}
	s, err := a.shardFor(owner{q.Stream, q.Pool})
	if err != nil {
		return 0, fmt.Errorf("allocate %d bytes: %w", q.Size, err)
	}
	size := a.r.round(q.Size)
	s.mu.Lock()
	var began int64
	timed := a.timed.Load()
	if timed {
		began = a.stamp(s)
	}
	p := s.poolOf(a.r.large(q.Size, size))
	if len(s.waiting) > 0 {
		if err := a.passMarks(s); err != nil {
			s.mu.Unlock()
			return 0, fmt.Errorf("allocate %d bytes: %w", q.Size, err)
		}
	}
	if a.r.adaptive {
		p.adapt(size)
	}
	id := s.take(p, size)
	hit := id != 0
	if !hit {
		if id, err = a.miss(s, p, size, q); err != nil {
			return 0, err // miss has unlocked the shard
		}
		s.misses++
	} else {
		s.hits++
	}
	id = s.handOut(p, id, size, q.Size)
	b := &s.blocks.at[id]
	addr := b.addr
	b.stack = q.Stack
	if timed {
		s.noteAlloc(a, b, q, began, hit)
	}
	a.finish(s)
	return Ptr(addr), nil
}

// noteAlloc records an allocation that began at a time.
func (s *shard) noteAlloc(a *Allocator, b *block, q Request, began int64, hit bool) {
	span := s.took
	if !hit || s.hits%hitTimings == 1 || a.debug.Load() {
		now := a.stamp(s)
		span = now - began
		if hit {
			s.took = span
		} else {
			began = now // memory from the driver came before it
		}
	}
	b.since = began
	e := s.ring.next()
	e.time, e.addr, e.size, e.span = began, b.addr, q.Size, span
	e.stack, e.thread, e.kind, e.hit = q.Stack, q.Thread, EventAlloc, hit
}

// finish ends an operation on a shard: it settles the peaks, checks the state in builds that do so, and unlocks.
func (a *Allocator) finish(s *shard) {
	switch {
	case s.summed != nil:
		a.publish(s)
	case s.over < 0:
		a.raise(s)
	}
	if checking {
		s.check()
	}
	s.mu.Unlock()
}

// raise settles the peaks after an operation that exceeded a limit.
func (a *Allocator) raise(s *shard) {
	if s.solo {
		s.raise()
		return
	}
	a.enter(s)
	a.settle(s)
	a.mu.Unlock()
}

// owner identifies a shard: what is freed on one stream or in one pool can't be handed out on another.
type owner struct {
	stream Stream
	pool   PoolID
}

// fewShards is the number of shards up to which walking over them is the fastest way to find one.
const fewShards = 8

// shardFor returns the owner's shard, a new one if it has none.
func (a *Allocator) shardFor(of owner) (*shard, error) {
	all := *a.shards.Load()
	for _, s := range all[:min(len(all), fewShards)] {
		if s.owner == of {
			return s, nil
		}
	}
	if len(all) > fewShards {
		if s, ok := a.named.Load(of); ok {
			return s.(*shard), nil
		}
	}
	return a.newShard(of)
}

func (a *Allocator) newShard(of owner) (*shard, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := *a.shards.Load()
	if i := slices.IndexFunc(all, func(s *shard) bool { return s.owner == of }); i >= 0 {
		return all[i], nil
	}
	if a.closed {
		return nil, ErrClosed
	}
	if len(all) == maxStreams {
		return nil, fmt.Errorf("stream %#x: %w: %d are in use", uint64(of.stream), ErrTooManyStreams, len(all))
	}
	s := &shard{num: uint32(len(all)), owner: of, r: &a.r, solo: len(all) == 0, kept: a.pools[of.pool] > 0}
	s.active = len(all) > 0 && all[0].active // under the device lock, where it is set for all
	s.pools[1].large = true
	s.ring = newRing(a.opt.EventCapacity)
	thaw := a.freeze(nil)
	defer thaw()
	if len(all) == 1 { // its limits were the peak
		all[0].mirror()
		a.peak = all[0].limit
		all[0].solo = false
	}
	if len(all) == dealtShards {
		a.sumUp(all)
	}
	if len(all) >= dealtShards {
		s.summed = new([numGauges]int64)
		s.unlimited()
	}
	next := append(slices.Clip(all), s)
	a.shards.Store(&next) // its limits are 0: the sum of all limits stays the peak
	a.named.Store(of, s)
	return s, nil
}

// enter takes the device lock while it holds the shard's.
func (a *Allocator) enter(s *shard) {
	s.parked.Store(true)
	a.mu.Lock()
	s.parked.Store(false)
}

// freeze stops all shards but own, which the caller holds already; the caller holds the device lock. A shard whose
// holder is parked waits for that very lock, in a consistent state: it need not be locked.
func (a *Allocator) freeze(own *shard) (thaw func()) {
	all := *a.shards.Load()
	locked := make([]*shard, 0, len(all))
	for _, s := range all {
		if s == own {
			continue
		}
		for tries := 0; ; tries++ {
			if s.mu.TryLock() {
				locked = append(locked, s)
				break
			}
			if s.parked.Load() {
				break
			}
			if tries < 64 {
				runtime.Gosched() // an operation takes a fraction of a microsecond …
			} else {
				time.Sleep(20 * time.Microsecond) // … unless its thread has lost the processor
			}
		}
	}
	return func() {
		for _, s := range locked {
			s.mu.Unlock()
		}
	}
}

// settle takes the exact sums after an operation of s, raises the peaks and deals out the room below them. The caller
// holds s and the device lock.
func (a *Allocator) settle(s *shard) {
	thaw := a.freeze(s)
	a.deal()
	thaw()
}

// deal is settle with all shards frozen.
func (a *Allocator) deal() {
	all := *a.shards.Load()
	if len(all) > 0 && all[0].summed != nil {
		a.publishAll(all)
		a.totals.mirror(all[0].active, &a.peak)
		return
	}
	for _, s := range all {
		s.mirror()
	}
	if len(all) == 1 {
		all[0].raise()
		return
	}
	for i := range numGauges {
		if beyond(all, i) {
			a.dealGauge(all, i)
		}
	}
	for _, s := range all {
		s.over = 0
	}
}

// countActive starts the counting of the active gauges: a block is about to be pending. The caller holds own and the
// device lock.
func (a *Allocator) countActive(own *shard) {
	if own.active {
		return
	}
	thaw := a.freeze(own)
	a.fold()
	for _, s := range *a.shards.Load() {
		s.active = true
	}
	thaw()
}

func beyond(all []*shard, i int) bool {
	for _, s := range all {
		if s.cur[i] > s.limit[i] {
			return true
		}
	}
	return false
}

// dealGauge keeps the sum of the limits at the peak. A gauge within its limits is left alone (see deal): if each shard
// returns to its own highest value again and again, as counts of blocks do, the limits must come to rest there.
func (a *Allocator) dealGauge(all []*shard, i int) {
	var sum int64
	for _, s := range all {
		sum += s.cur[i]
	}
	a.peak[i] = max(a.peak[i], sum)
	room := a.peak[i] - sum
	share := room / int64(len(all))
	rest := room - share*int64(len(all)) // the rest of the division: for the first that exceeded its limit
	for _, s := range all {
		over := s.cur[i] > s.limit[i]
		s.limit[i] = s.cur[i] + share
		if over {
			s.limit[i] += rest
			rest = 0
		}
	}
}

func sumOf(all []*shard) (sums [numGauges]int64) {
	for _, s := range all {
		for i, v := range s.cur {
			sums[i] += v
		}
	}
	return sums
}
