package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Setting is an allocator to try.
type Setting struct {
	Name    string // for people, such as "torch expandable_segments:True"
	Options alloc.Options
	// Recorded says that the history was recorded with these settings: then what that allocator gave back to the driver
	// is followed segment by segment.
	Recorded bool
}

// collects says that the recorded allocator gave segments back by itself before it got new ones.
func (s *Setting) collects() bool { return s.Recorded && s.Options.GCThreshold > 0 }

// Result is what a setting would have done. Sizes are in bytes.
type Result struct {
	Setting       string
	Recorded      bool  // Setting is that of the recording
	PeakRequested int64 // the most that the program held at once
	PeakReserved  int64 // the most that the allocator had from the driver
	EndReserved   int64
	DriverCalls   int64         // after the opening: allocations and frees, maps and unmaps
	Ops           int           // allocations and frees that were replayed
	Lacking       Lacking       // of the history
	Elapsed       time.Duration // processor time of the replay
	OOM           *OOM          // nil if the device had room
	Curve         Curve         // reserved bytes, a point for each driver call
	Turns         []Turn        // where the history is played several times
}

// Lacking are events that a history should have and has not.
type Lacking struct {
	// Frees of what lay at an address that was allocated again. The replay frees it then, though it may have lived less
	// long; what the history never frees lives until its end.
	Frees       int
	Allocations int // of what was freed; the replay leaves out these frees
}

// Waste is what was reserved beyond what was requested, at the peaks, as a share of the latter.
func (r *Result) Waste() float64 {
	if r.PeakRequested == 0 {
		return 0
	}
	return float64(r.PeakReserved)/float64(r.PeakRequested) - 1
}

// FirstPeak is the most that was reserved in the first turn.
func (r *Result) FirstPeak() int64 {
	if len(r.Turns) > 1 {
		return r.Turns[0].PeakReserved
	}
	return r.PeakReserved
}

// OOM is the first request that could not be served; the replay ends there.
type OOM struct {
	Event int // its number in the trace
	Size  int64
	Err   error
}

// Curve is a quantity that holds until its next point.
type Curve struct {
	Event []float64 // number of the event
	Bytes []float64
}

func (c *Curve) add(event int, bytes int64) {
	if n := len(c.Event); n > 0 && c.Event[n-1] == float64(event) {
		c.Bytes[n-1] = float64(bytes)
		return
	}
	c.Event, c.Bytes = append(c.Event, float64(event)), append(c.Bytes, float64(bytes))
}

// errNoDevice says that the history can't have been recorded on any device.
var errNoDevice = errors.New("no device is so large")

// errOpening says that the device has no room for what was live at first.
var errOpening = errors.New("place what the program held at first")

// Unlimited is the capacity of a device on which no policy runs out of memory.
const Unlimited = 0

// maxNeed is the most that a history may hold at once, in bytes. The largest devices have 2^38 or 2^39. A replay on
// virtual memory counts pages of 2 MiB, so a file of two lines could keep it busy for ever.
const maxNeed = 1 << 40

// errTakesLong says that a replay was given up. A file can hold a history with which an allocator's searches are long.
var errTakesLong = errors.New("it takes longer than any program's allocations do")

// The processor time of a replay is maxTime, and maxTimePerOp for each operation. Operations of recorded histories take
// 1 to 20 µs. All replays of one history have allTimes that together: one or two may take all of theirs where the
// others are honest.
const (
	maxTime      = 30 * time.Second
	maxTimePerOp = 200 * time.Microsecond
	allTimes     = 3
)

// errAllTakeLong says that the replays of a history were given up together.
var errAllTakeLong = errors.New("the replays together take longer than those of any program do")

// room is the size of a device in bytes; Unlimited becomes a multiple of what the program ever held.
func (prog *program) room(t *snapshot.Trace, capacity int64) (int64, error) {
	if capacity != Unlimited {
		return capacity, nil
	}
	need := prog.peak
	if t.Recorded != nil {
		need = max(need, t.Recorded.Peak)
	}
	if need > maxNeed {
		return 0, fmt.Errorf("replay: %w: the history has %d bytes at once, at most %d can be", errNoDevice, need,
			int64(maxNeed))
	}
	return 4*need + 1<<30, nil
}

// Run replays the trace from its opening, on a device of so many bytes, or Unlimited. The context can end it early.
func Run(ctx context.Context, t *snapshot.Trace, s Setting, capacity int64) (*Result, error) {
	return Repeat(ctx, t, s, capacity, 1)
}

// Repeat is Run with the history played several times.
func Repeat(ctx context.Context, t *snapshot.Trace, s Setting, capacity int64, turns int) (*Result, error) {
	p := newProgram(t, s.collects())
	capacity, err := p.room(t, capacity)
	if err != nil {
		return nil, err
	}
	return p.run(ctx, t, s, capacity, turns)
}

// Each replays with each of the settings on all processors. The settings share the preparation of the history.
func Each(ctx context.Context, t *snapshot.Trace, settings []Setting, capacity int64, turns int) ([]*Result, error) {
	var collects bool
	for i := range settings {
		collects = collects || settings[i].collects()
	}
	p := newProgram(t, collects)
	capacity, err := p.room(t, capacity)
	if err != nil {
		return nil, err
	}
	out := make([]*Result, len(settings))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, s := range settings {
		g.Go(func() (err error) {
			out[i], err = p.run(ctx, t, s, capacity, turns)
			return err
		})
	}
	return out, g.Wait()
}

// run replays the program. It needs only the opening of the trace: its events may be discarded.
func (prog *program) run(ctx context.Context, t *snapshot.Trace, s Setting, capacity int64, turns int) (*Result,
	error) {
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	d := &driver{base: (prog.top + page - 1) / page * page}
	if d.base > 1<<62 { // no address: an allocator of its own kind
		d.base = 0
	}
	d.capacity = prog.device(capacity)
	d.Device = fake.New(fake.Config{Capacity: d.capacity, Base: d.base})
	if s.Recorded && t.Recorded != nil && t.Recorded.SegmentOps > 0 {
		s.Options.GCThreshold = 0 // what it gave back is in the history, and the size of its device is not
	}
	a, err := alloc.New(d, s.Options)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p := &player{a: a, driver: d, program: prog, exact: s.Recorded, held: make([]alloc.Ptr, prog.slots),
		out: &Result{Setting: s.Name, Recorded: s.Recorded}}
	p.time = prog.patience + time.Duration(turns)*time.Duration(len(prog.ops))*maxTimePerOp
	p.began = cpu()
	p.segments = (a.Policy() == alloc.Torch) && !s.Options.ExpandableSegments
	if err := p.open(t, &s.Options); err != nil {
		return nil, fmt.Errorf("replay: %w: %w", errOpening, err)
	}
	began := cpu()
	err = p.repeat(ctx, t, turns)
	if errors.Is(err, errAllTakeLong) {
		return nil, remedy.Add(fmt.Errorf("replay: %w", err), "try fewer policies and settings at a time")
	}
	if errors.Is(err, errTakesLong) {
		return nil, remedy.Add(fmt.Errorf("replay: %s: %w", s.Name, err), "leave that policy or setting out")
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p.out.Elapsed = cpu() - began
	p.out.PeakReserved = max(d.peak, p.out.PeakReserved)
	p.out.EndReserved = d.reserved
	p.out.DriverCalls = d.calls
	p.out.Curve = d.curve
	p.out.PeakRequested, p.out.Lacking = prog.peak, prog.lacking
	return p.out, nil
}

// device is the size of the device to replay on: if the recorded one was full, no larger than that can have been.
func (prog *program) device(capacity int64) int64 {
	if prog.limit > 0 {
		return min(capacity, prog.limit-1)
	}
	return capacity
}

// cpu is the processor time of this thread, without what else runs on the machine.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // Linux has had it since 2.6.12
	}
	return time.Duration(now.Nano())
}

// player is a replay in progress.
type player struct {
	*program
	a        *alloc.Allocator
	driver   *driver
	exact    bool          // the settings are those of the recording
	segments bool          // it has the same segments as the recorded one, if that was PyTorch's
	held     []alloc.Ptr   // by slot
	missed   bool          // a segment was given back that the replayed allocator doesn't have, or that isn't idle
	first    int           // events of the turns before
	began    time.Duration // the thread's processor time then
	time     time.Duration // that it may take
	told     time.Duration // of it that stands in the program's spent
	out      *Result
}

// checkEvery is how many operations pass between checks of the context; a few ms.
const checkEvery = 4096

// timeEvery is how many operations pass between looks at the clock, which take 0.2 µs: some 50 ms where each searches
// all that it can.
const timeEvery = 64

func (p *player) play(ctx context.Context, again bool) error {
	for i := range p.ops {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		o := &p.ops[i]
		p.driver.event = p.first + int(o.event)
		var err error
		switch {
		case o.kind == opAlloc:
			err = p.alloc(o)
		case o.kind == opFree:
			err = p.free(int(o.slot))
		case again || int(o.event) < p.opening:
			// the recorded allocator did it only in its first pass, and before the replayed events
		default:
			err = p.driven(o)
		}
		if err != nil || p.out.OOM != nil {
			return err
		}
	}
	return nil
}

// driven repeats the recorded allocator's calls to the driver.
func (p *player) driven(o *op) error {
	switch o.kind {
	case opReserve:
		if p.segments {
			p.driver.next = append(p.driver.next, span{o.addr, o.size})
		}
	case opRelease:
		if p.exact && p.segments {
			given, err := p.a.ReleaseSegment(o.addr)
			p.missed = p.missed || !given
			return err
		}
	case opEmpty:
		missed := p.missed
		p.missed = false
		if missed || !p.exact || !p.segments {
			return p.empty()
		}
	case opPress: // it follows from the device's size
		p.missed = false
	}
	return nil
}

// count counts an operation, and gives the replay up when its time is over, or that of all replays.
func (p *player) count() error {
	if p.out.Ops%timeEvery == 0 {
		took := cpu() - p.began
		if took > p.time {
			return errTakesLong
		}
		if p.spent.Add(int64(took-p.told)) > int64(allTimes*p.time) {
			return errAllTakeLong
		}
		p.told = took
	}
	p.out.Ops++
	return nil
}

func (p *player) alloc(o *op) error {
	if err := p.count(); err != nil {
		return err
	}
	ptr, err := p.a.Alloc(o.size, alloc.Stream(p.streams[o.stream]))
	if len(p.driver.next) > 0 {
		p.driver.next = p.driver.next[:0]
	}
	if errors.Is(err, alloc.ErrOutOfMemory) {
		p.out.OOM = &OOM{int(o.event), o.size, err}
		return nil
	}
	p.held[o.slot] = ptr
	return err
}

func (p *player) free(slot int) error {
	if err := p.count(); err != nil {
		return err
	}
	ptr := p.held[slot]
	p.held[slot] = 0
	return p.a.Free(ptr)
}

// Requested returns what the program held, event by event.
func Requested(t *snapshot.Trace) *Curve {
	held := make(map[uint64]int64, len(t.Live))
	var now int64
	for _, b := range t.Live {
		held[b.Addr] = b.Requested
		now += b.Requested
	}
	c := &Curve{}
	c.add(0, now)
	for i := range t.Events.Len() {
		e := t.Events.At(i)
		switch e.Action {
		case snapshot.IsAlloc:
			now += e.Size - held[e.Addr]
			held[e.Addr] = e.Size
		case snapshot.IsFreeCompleted:
			now -= held[e.Addr]
			delete(held, e.Addr)
		default:
			continue
		}
		c.add(i, now)
	}
	return c
}

// Reserved returns what the recorded allocator had, event by event; nil if the trace does not say.
func Reserved(t *snapshot.Trace) *Curve {
	if t.Recorded == nil {
		return nil
	}
	c, now := &Curve{}, t.Reserved
	c.add(0, now)
	for i := range t.Events.Len() {
		switch e := t.Events.At(i); e.Action {
		case snapshot.IsSegmentAlloc, snapshot.IsSegmentMap:
			now += e.Size
		case snapshot.IsSegmentFree, snapshot.IsSegmentUnmap:
			now -= e.Size
		default:
			continue
		}
		c.add(i, now)
	}
	return c
}
