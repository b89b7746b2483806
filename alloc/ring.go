package alloc

// EventKind is what happened. The names are PyTorch's (torch/cuda/_memory_viz.py reads them).
type EventKind uint8

const (
	EventAlloc        EventKind = iota // a block was handed out
	EventFree                          // its owner gave it back
	EventFreed                         // no stream uses it any more: it can be handed out again
	EventSegmentAlloc                  // memory from the driver
	EventSegmentFree                   // memory back to the driver
	EventSegmentMap                    // memory behind virtual addresses
	EventSegmentUnmap
	EventOOM // an allocation failed: Size is the requested size, Addr the bytes that the device had left
)

var eventNames = [...]string{"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free",
	"segment_map",
	"segment_unmap", "oom"}

func (k EventKind) String() string { return eventNames[k] }

// Event is an entry of the history.
type Event struct {
	Time int64 // ns since the Unix epoch (with Options.Clock: what that returned)
	Addr uint64
	Size int64 // bytes: the requested size; of segment events what the driver gave
	// ns: EventAlloc how long it took (every 16th hit is measured, with debug on each; the others have its value);
	// frees: how long the block lived
	Span   int64
	Stream Stream
	Stack  StackID // of the caller; see Allocator.Stack
	Thread uint32  // as the caller named it in Request; 0: unknown
	Kind   EventKind
	Hit    bool // EventAlloc: served from the cache
}

// record is an Event in the ring: the stream is the shard's.
type record struct {
	time   int64 // a stamp: see clock
	addr   uint64
	size   int64
	span   int64 // between two stamps
	stack  StackID
	thread uint32
	kind   EventKind
	hit    bool // EventFree: the block was free at once, an EventFreed of the same instant
}

// chunkLen is the number of records in a chunk: 24 KiB, copied in a microsecond, so that a snapshot holds the lock only
// for the chunk that is being written.
const chunkLen = 512

type chunk struct {
	records [chunkLen]record
	shared  bool // a snapshot reads it: it is no longer written
}

// ring keeps the newest records, at least capacity of them, in chunks. A snapshot takes the full chunks by reference;
// the ring then replaces a shared chunk instead of writing to it.
type ring struct {
	capacity int
	chunks   []*chunk
	now      *chunk // chunks[cur], where the next record goes …
	cur, pos int    // … to pos
	turns    uint64 // chunks begun so far
}

// next returns the place of the next record, to be filled in whole.
func (r *ring) next() *record {
	if r.pos == chunkLen {
		r.turn()
	}
	e := &r.now.records[r.pos]
	r.pos++
	return e
}

func newRing(capacity int) ring {
	return ring{capacity: capacity, pos: chunkLen, cur: -1}
}

func (r *ring) turn() {
	r.pos = 0
	r.cur++
	r.turns++
	full := (r.capacity+chunkLen-1)/chunkLen + 1 // one more: the current chunk is partly empty
	switch {
	case r.cur < len(r.chunks):
	case len(r.chunks) < full:
		r.chunks = append(r.chunks, new(chunk))
	default:
		r.cur = 0
	}
	if r.chunks[r.cur].shared {
		r.chunks[r.cur] = new(chunk)
	}
	r.now = r.chunks[r.cur]
}

// total is how many records were ever written.
func (r *ring) total() uint64 {
	if r.turns == 0 {
		return 0
	}
	return (r.turns-1)*chunkLen + uint64(r.pos)
}

// view is a snapshot's part of a ring: full chunks by reference, the current one by copy; oldest first.
type view struct {
	chunks  []*chunk
	partial []record
	total   uint64
	cap     int
	stream  Stream
}

func (r *ring) view(stream Stream) view {
	v := view{total: r.total(), cap: r.capacity, stream: stream}
	for i := 1; i <= len(r.chunks); i++ {
		c := r.chunks[(r.cur+i)%len(r.chunks)]
		if c == r.now {
			break
		}
		c.shared = true
		v.chunks = append(v.chunks, c)
	}
	if r.turns > 0 {
		v.partial = append(v.partial, r.now.records[:r.pos]...)
	}
	return v
}

// newest copies at most the last n records.
func (r *ring) newest(stream Stream, n int) view {
	v := view{total: r.total(), cap: n, stream: stream}
	if r.turns == 0 {
		return v
	}
	if before := n - r.pos; before > 0 && r.turns > 1 && len(r.chunks) > 1 {
		last := r.chunks[(r.cur+len(r.chunks)-1)%len(r.chunks)]
		v.partial = append(v.partial, last.records[max(0, chunkLen-before):]...)
	}
	v.partial = append(v.partial, r.now.records[max(0, r.pos-n):r.pos]...)
	return v
}

// events appends the view's records to to, oldest first.
func (v *view) events(to []Event, times *timeline) []Event {
	n := len(v.chunks)*chunkLen + len(v.partial)
	skip := max(0, n-v.cap)
	emit := func(rs []record) {
		if skip >= len(rs) {
			skip -= len(rs)
			return
		}
		for i := range rs[skip:] {
			r := &rs[skip+i]
			e := Event{
				Time: times.at(r.time), Addr: r.addr, Size: r.size, Span: times.span(r.span), Stream: v.stream,
				Stack: r.stack, Thread: r.thread, Kind: r.kind, Hit: r.hit && r.kind == EventAlloc,
			}
			to = append(to, e)
			if r.kind == EventFree && r.hit {
				e.Kind = EventFreed
				to = append(to, e)
			}
		}
		skip = 0
	}
	for _, c := range v.chunks {
		emit(c.records[:])
	}
	emit(v.partial)
	return to
}
