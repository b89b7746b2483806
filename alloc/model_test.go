package alloc

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// device is a minimal driver for the two models: each has its own, and both get the same addresses. Package fake
// imports this package, so only tests outside it can use fake.
type device struct {
	next     uint64
	used     int64
	capacity int64
	pieces   map[Ptr]int64
	work     map[Stream][2]int64 // submitted, done
	marks    map[Mark][2]int64
	last     Mark
	faults   []error
}

func newDevice(capacity int64) *device {
	return &device{next: 1 << 40, capacity: capacity, pieces: map[Ptr]int64{}, work: map[Stream][2]int64{},
		marks: map[Mark][2]int64{}}
}

func (d *device) Alloc(size int64) (Ptr, error) {
	if d.used+size > d.capacity {
		return 0, ErrNoMemory
	}
	p := Ptr(d.next)
	d.next += uint64(size) + 2<<20
	d.used += size
	d.pieces[p] = size
	return p, nil
}

func (d *device) Free(p Ptr, size int64) error {
	if d.pieces[p] != size {
		d.faults = append(d.faults, fmt.Errorf("free of %d bytes at %#x, where there are %d", size, uint64(p),
			d.pieces[p]))
	}
	delete(d.pieces, p)
	d.used -= size
	return nil
}

func (d *device) MemInfo() (int64, int64, error) { return d.capacity - d.used, d.capacity, nil }

func (d *device) Record(s Stream) (Mark, error) {
	d.last++
	d.marks[d.last] = [2]int64{int64(s), d.work[s][0]}
	return d.last, nil
}

func (d *device) Query(m Mark) (bool, error) {
	at := d.marks[m]
	return d.work[Stream(at[0])][1] >= at[1], nil
}

func (d *device) Wait(m Mark) error {
	at := d.marks[m]
	w := d.work[Stream(at[0])]
	w[1] = max(w[1], at[1])
	d.work[Stream(at[0])] = w
	return nil
}

func (d *device) Forget(m Mark) error { delete(d.marks, m); return nil }

func (d *device) WaitAll() error { return nil }

// opReader makes operations from bytes: the fuzzer's, or a random generator's.
type opReader interface{ next(n int) int }

type randomOps struct{ *rand.Rand }

func (r randomOps) next(n int) int { return r.IntN(n) }

type bytesOps struct {
	data []byte
	done bool
}

func (b *bytesOps) next(n int) int {
	v := 0
	for w := 1; w < n; w <<= 8 {
		if len(b.data) == 0 {
			b.done = true
			return 0
		}
		v, b.data = v<<8|int(b.data[0]), b.data[1:]
	}
	return v % n
}

// pair runs the real allocator and the naive one side by side.
type pair struct {
	ops   opReader
	a     *Allocator
	dev   *device
	n     *naive
	ndev  *device
	live  []liveBlock
	freed []Ptr
	full  bool // compare all statistics after each operation
}

type liveBlock struct {
	p      Ptr
	size   int64
	stream Stream
	owners int
	uses   map[Stream]bool
}

func newPair(ops opReader, capacity int64, o Options) *pair {
	p := &pair{ops: ops, dev: newDevice(capacity), ndev: newDevice(capacity), full: true}
	var err error
	if p.a, err = New(p.dev, o); err != nil {
		panic(err)
	}
	p.n = &naive{driver: p.ndev, release: p.ndev.Free, limit: p.a.limit, maxSplit: p.a.r.maxSplit, o: o,
		pendingNow: map[*naiveBlock]int{}}
	p.n.limit = min(p.n.limit, capacity)
	return p
}

// size returns small, middle and large requests, some of them at the borders of the rules.
func (p *pair) size() int64 {
	edges := []int64{1, 511, 512, 513, 1 << 20, 1<<20 + 1, 1<<20 - 512, 10<<20 - 512, 10 << 20, 10<<20 + 1, 2 << 20,
		20 << 20}
	switch p.ops.next(8) {
	case 0:
		return edges[p.ops.next(len(edges))]
	case 1, 2:
		return 1 + int64(p.ops.next(1<<16))
	case 3, 4:
		return 1 + int64(p.ops.next(1<<22))
	case 5:
		return 512 * (1 + int64(p.ops.next(8)))
	default:
		return 1 + int64(p.ops.next(48<<20))
	}
}

func (p *pair) step() error {
	if err := p.operate(); err != nil {
		return err
	}
	if len(p.dev.faults) > 0 {
		return p.dev.faults[0]
	}
	if err := p.a.Check(); err != nil {
		return err
	}
	if p.full {
		return p.n.compare(p.a)
	}
	return nil
}

func (p *pair) operate() error {
	switch k := p.ops.next(32); {
	case k < 15 || len(p.live) == 0:
		return p.alloc()
	case k < 28:
		return p.free(p.ops.next(len(p.live)))
	case k == 28:
		return p.record(p.ops.next(len(p.live)), Stream(p.ops.next(3)))
	case k == 29:
		return p.misuse()
	case k == 30:
		b := &p.live[p.ops.next(len(p.live))]
		b.owners++
		_, nb := p.n.find(b.p)
		nb.owners++
		return p.a.Retain(b.p)
	}
	return p.rare()
}

func (p *pair) rare() error {
	switch p.ops.next(16) {
	case 0:
		for b := range p.n.pendingNow {
			p.n.finish(b)
		}
		p.n.empty()
		p.n.note()
		_, err := p.a.EmptyCache()
		return err
	case 1:
		p.a.ResetPeak()
		p.n.peak = naiveGauges{}
		p.n.note()
	case 2, 3, 4: // the device works on
		s := Stream(p.ops.next(3))
		p.dev.work[s] = [2]int64{p.dev.work[s][0], p.dev.work[s][0]}
	}
	return nil
}

func (p *pair) alloc() error {
	size, stream := p.size(), Stream(p.ops.next(3))
	p.passMarks(stream)
	got, err := p.a.Alloc(size, stream)
	want, nerr := p.n.alloc(size, stream)
	if (err == nil) != (nerr == nil) {
		return fmt.Errorf("alloc %d: %w; the naive model: %w", size, err, nerr)
	}
	if err != nil {
		if !errors.Is(err, ErrOutOfMemory) {
			return err
		}
		return nil
	}
	if got != want {
		return fmt.Errorf("alloc %d on stream %d gave %#x, the naive model %#x", size, stream, uint64(got),
			uint64(want))
	}
	p.live = append(p.live, liveBlock{got, size, stream, 1, map[Stream]bool{}})
	return nil
}

// passMarks does in the naive model what an allocation begins with. Its pending blocks belong to marks in the other
// model's device: a block is done when all marks that the real allocator holds for it are.
func (p *pair) passMarks(stream Stream) {
	s := p.shard(stream)
	if s == nil {
		return
	}
	waiting := map[uint64]bool{}
	for _, q := range s.waiting {
		blocked := false
		for _, m := range q.marks {
			if done, _ := p.dev.Query(m.mark); !done || blocked {
				blocked = true
				waiting[s.blocks.at[m.id].addr] = true
			}
		}
	}
	for i := range s.blocks.at {
		if b := &s.blocks.at[i]; b.state == pending && !waiting[b.addr] {
			_, nb := p.n.find(Ptr(b.addr))
			p.n.finish(nb)
		}
	}
}

func (p *pair) shard(stream Stream) *shard {
	for _, s := range *p.a.shards.Load() {
		if s.stream == stream {
			return s
		}
	}
	return nil
}

func (p *pair) free(i int) error {
	b := &p.live[i]
	p.dev.work[b.stream] = [2]int64{p.dev.work[b.stream][0] + 1, p.dev.work[b.stream][1]}
	for u := range b.uses {
		p.dev.work[u] = [2]int64{p.dev.work[u][0] + 1, p.dev.work[u][1]}
	}
	var err error
	if p.ops.next(2) == 0 {
		err = p.a.FreeRequest(b.p, Request{Size: b.size, Stream: b.stream})
	} else {
		err = p.a.Free(b.p)
	}
	if err != nil {
		return err
	}
	p.n.free(b.p, len(b.uses) > 0)
	if b.owners--; b.owners == 0 {
		p.freed = append(p.freed, b.p)
		p.live[i] = p.live[len(p.live)-1]
		p.live = p.live[:len(p.live)-1]
	}
	return nil
}

func (p *pair) record(i int, stream Stream) error {
	b := &p.live[i]
	if stream != b.stream {
		b.uses[stream] = true
	}
	return p.a.RecordStream(b.p, stream)
}

// misuse does something wrong and wants the right error, and nothing else changed.
func (p *pair) misuse() error {
	b := &p.live[p.ops.next(len(p.live))]
	var err, want error
	switch p.ops.next(5) {
	case 0:
		err, want = p.a.Free(b.p+512), ErrInteriorPointer
		if b.size <= 512 {
			return p.ignore(err)
		}
	case 1:
		err, want = p.a.Free(8), ErrUnknownPointer
	case 2:
		err, want = p.a.FreeRequest(b.p, Request{Size: b.size + 1, Stream: b.stream}), ErrWrongSize
	case 3:
		err, want = p.a.FreeRequest(b.p, Request{Size: b.size, Stream: 77}), ErrWrongStream
	default:
		return p.doubleFree()
	}
	var m *MisuseError
	if !errors.Is(err, want) || !errors.As(err, &m) {
		return fmt.Errorf("misuse of %#x: %w, want %w", uint64(b.p), err, want)
	}
	return nil
}

// ignore accepts the error of a pointer to the next block, if that is not a live one: then it was freed in earnest.
func (p *pair) ignore(err error) error {
	if err == nil {
		return errStop
	}
	return nil
}

var errStop = errors.New("the operation freed a block by chance: no comparison is possible")

func (p *pair) doubleFree() error {
	if len(p.freed) == 0 {
		return nil
	}
	ptr := p.freed[len(p.freed)-1]
	for _, b := range p.live {
		if b.p == ptr {
			return nil // handed out again
		}
	}
	err := p.a.Free(ptr)
	rerr := p.a.Retain(ptr)
	for _, e := range []error{err, rerr} {
		if !errors.Is(e, ErrDoubleFree) && !errors.Is(e, ErrRetainAfterFree) && !errors.Is(e, ErrUnknownPointer) &&
			!errors.Is(e, ErrInteriorPointer) {
			return fmt.Errorf("double free of %#x: %w", uint64(ptr), e)
		}
	}
	return nil
}

// operations returns how many operations a test does.
func operations(quick int) int {
	if checking {
		return quick / 50 // each operation also checks itself
	}
	return env.Times(quick, 20*quick)
}

// TestAgainstNaive compares all statistics, all addresses and the whole state after each operation.
func TestAgainstNaive(t *testing.T) {
	n := operations(150_000)
	for seed, o := range []Options{{}, {MaxSplitSize: 24 << 20}, {MemoryFraction: 0.5}, {EventCapacity: 100}} {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(uint64(seed), 7))
			for done := 0; done < n/4; {
				p := newPair(randomOps{r}, []int64{256 << 20, 1 << 30, 8 << 30}[r.IntN(3)], o)
				for i := 0; i < 4000 && done < n/4; i, done = i+1, done+1 {
					if err := p.step(); errors.Is(err, errStop) {
						break
					} else if err != nil {
						t.Fatalf("operation %d: %v", i, err)
					}
				}
			}
		})
	}
}

func FuzzAgainstNaive(f *testing.F) {
	f.Add([]byte("0123456789abcdefghijklmnopqrstuvwxyz0123456789"), byte(0))
	f.Add([]byte{0, 7, 1, 1, 1, 1, 1, 20, 0, 0, 0, 7, 1, 1, 1, 28, 0, 1, 22, 0}, byte(1))
	f.Fuzz(func(t *testing.T, data []byte, variant byte) {
		o := []Options{{}, {MaxSplitSize: 24 << 20}, {MemoryFraction: 0.5}}[variant%3]
		ops := &bytesOps{data: data}
		p := newPair(ops, 128<<20, o)
		for i := 0; !ops.done && i < 2000; i++ {
			if err := p.step(); errors.Is(err, errStop) {
				return
			} else if err != nil {
				t.Fatalf("operation %d: %v", i, err)
			}
		}
	})
}

// BenchmarkSnapshotLocked is how long a snapshot of 100,000 events and 1,000 blocks keeps the allocator standing still.
func BenchmarkSnapshotLocked(b *testing.B) {
	a, err := New(newDevice(1<<40), Options{EventCapacity: 100_000})
	if err != nil {
		b.Fatal(err)
	}
	var live []Ptr
	for i := range 200_000 {
		if len(live) == 1000 {
			_ = a.Free(live[i%1000])
			live[i%1000] = live[999]
			live = live[:999]
		}
		p, err := a.Alloc(int64(512+i*7919%(4<<20)), 0)
		if err != nil {
			b.Fatal(err)
		}
		live = append(live, p)
	}
	b.ResetTimer()
	for range b.N {
		if len(a.capture()[0].view.chunks) == 0 {
			b.Fatal("no events")
		}
		b.StopTimer()
		for i := range 1000 { // turn the ring, so that shared chunks are replaced as in life
			_ = a.Free(live[i])
			live[i], _ = a.Alloc(1000, 0)
		}
		b.StartTimer()
	}
}
