package replay

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/internal/snapshot"
)

// Setting is an allocator to try.
type Setting struct {
	Name    string // for people, such as "torch expandable_segments:True"
	Options alloc.Options
}

// Result is what a setting would have done. Sizes are in bytes.
type Result struct {
	Setting       string
	PeakRequested int64 // the most that the program held at once
	PeakReserved  int64 // the most that the allocator had from the driver
	EndReserved   int64
	DriverCalls   int64         // after the opening: allocations and frees, maps and unmaps
	Ops           int           // allocations and frees that were replayed
	Elapsed       time.Duration // processor time of the replay
	OOM           *OOM          // nil if the device had room
	Curve         Curve         // reserved bytes, a point for each driver call
	Turns         []Turn        // where the history is played several times
}

// Waste is what was reserved beyond what was asked for, at the peaks, as a share of the latter.
func (r *Result) Waste() float64 {
	if r.PeakRequested == 0 {
		return 0
	}
	return float64(r.PeakReserved)/float64(r.PeakRequested) - 1
}

// OOM is the first request that found no room; the replay ends there.
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

// errOpening says that the device has no room for what was there at first.
var errOpening = errors.New("place what the program held at first")

// Unlimited is the size of a device on which no policy runs out: a multiple of what the program ever held.
func Unlimited(t *snapshot.Trace) int64 {
	need := Requested(t).peak()
	if t.Recorded != nil {
		need = max(need, t.Recorded.Peak)
	}
	return 4*need + 1<<30
}

// Run replays the trace from its opening, on a device of so many bytes. The context ends it early.
func Run(ctx context.Context, t *snapshot.Trace, s Setting, capacity int64) (*Result, error) {
	return Repeat(ctx, t, s, capacity, 1)
}

// Repeat is Run with the history played several times over.
func Repeat(ctx context.Context, t *snapshot.Trace, s Setting, capacity int64, turns int) (*Result, error) {
	runtime.LockOSThread() // for its processor time
	defer runtime.UnlockOSThread()
	d := &driver{Device: fake.New(fake.Config{Capacity: capacity})}
	a, err := alloc.New(d, s.Options)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p := &player{a: a, driver: d, held: make(map[uint64]alloc.Ptr, len(t.Live)), born: map[uint64]bool{}, out: &Result{Setting: s.Name}}
	if err := p.open(t, s.Options); err != nil {
		return nil, fmt.Errorf("replay: %w: %w", errOpening, err)
	}
	began := cpu()
	if err := p.repeat(ctx, t, turns); err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	p.out.Elapsed = cpu() - began
	p.out.PeakReserved = max(d.peak, p.out.PeakReserved)
	p.out.EndReserved = d.reserved
	p.out.DriverCalls = d.calls
	p.out.Curve = d.curve
	p.out.PeakRequested = Requested(t).peak()
	return p.out, nil
}

// cpu is the processor time of this thread: what else runs on the machine is not in it.
func cpu() time.Duration {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &now); err != nil {
		panic(err) // Linux has had it since 2.6.12
	}
	return time.Duration(now.Nano())
}

// player is a replay under way.
type player struct {
	a      *alloc.Allocator
	driver *driver
	held   map[uint64]alloc.Ptr // the trace's address → ours
	born   map[uint64]bool      // those of them that are not of the opening
	first  int                  // events of the turns before
	out    *Result
}

// checkEvery is how many events pass between looks at the context; a few ms.
const checkEvery = 4096

func (p *player) play(ctx context.Context, events []snapshot.Event) error {
	for i := range events {
		if i%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		p.driver.event = p.first + i
		e := &events[i]
		switch e.Action {
		case snapshot.Alloc:
			oom, err := p.alloc(i, e)
			if oom || err != nil {
				return err
			}
		case snapshot.FreeCompleted:
			if err := p.free(e); err != nil {
				return err
			}
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			if emptied(events, i) {
				if err := p.empty(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (p *player) alloc(i int, e *snapshot.Event) (oom bool, err error) {
	if old, ok := p.held[e.Addr]; ok { // the history has lost the free
		if err := p.a.Free(old); err != nil {
			return false, err
		}
	}
	ptr, err := p.a.Alloc(e.Size, alloc.Stream(e.Stream))
	p.out.Ops++
	if errors.Is(err, alloc.ErrOutOfMemory) {
		p.out.OOM = &OOM{i, e.Size, err}
		return true, nil
	}
	p.held[e.Addr] = ptr
	p.born[e.Addr] = true
	return false, err
}

func (p *player) free(e *snapshot.Event) error {
	ptr, ok := p.held[e.Addr]
	if !ok {
		return nil // was allocated before the history began, and nobody says so
	}
	delete(p.held, e.Addr)
	delete(p.born, e.Addr)
	p.out.Ops++
	return p.a.Free(ptr)
}

// emptied says that event i ends an empty_cache: the last of a run of segment_free after which the program goes on. A run
// that is followed by segment_alloc was the recorded allocator making room for it, which is no wish of the program's.
func emptied(events []snapshot.Event, i int) bool {
	if i+1 == len(events) {
		return true
	}
	switch events[i+1].Action {
	case snapshot.SegmentFree, snapshot.SegmentUnmap, snapshot.SegmentAlloc, snapshot.SegmentMap:
		return false
	}
	return true
}

// Requested is what the program held, event by event.
func Requested(t *snapshot.Trace) *Curve {
	held := make(map[uint64]int64, len(t.Live))
	var now int64
	for _, b := range t.Live {
		held[b.Addr] = b.Requested
		now += b.Requested
	}
	c := &Curve{}
	c.add(0, now)
	for i := range t.Events {
		e := &t.Events[i]
		switch e.Action {
		case snapshot.Alloc:
			now += e.Size - held[e.Addr]
			held[e.Addr] = e.Size
		case snapshot.FreeCompleted:
			now -= held[e.Addr]
			delete(held, e.Addr)
		default:
			continue
		}
		c.add(i, now)
	}
	return c
}

// Reserved is what the recorded allocator had, event by event; nil where the trace does not say.
func Reserved(t *snapshot.Trace) *Curve {
	if t.Recorded == nil {
		return nil
	}
	c, now := &Curve{}, t.Reserved
	c.add(0, now)
	for i := range t.Events {
		switch e := &t.Events[i]; e.Action {
		case snapshot.SegmentAlloc, snapshot.SegmentMap:
			now += e.Size
		case snapshot.SegmentFree, snapshot.SegmentUnmap:
			now -= e.Size
		default:
			continue
		}
		c.add(i, now)
	}
	return c
}

func (c *Curve) peak() (top int64) {
	for _, v := range c.Bytes {
		top = max(top, int64(v))
	}
	return top
}
