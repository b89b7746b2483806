// Package fake is a device without memory: it hands out addresses and accounts for them, for simulations and tests. It
// has a capacity, streams with a virtual clock, and failures on demand. It never panics: every use that a real device
// would punish is written to a ledger (Faults).
package fake

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/alloc"
)

// Config describes the device. The zero value has 80 GiB and the usual granularity of virtual memory.
type Config struct {
	Capacity int64         // bytes; 0: 80 GiB
	Latency  time.Duration // added to the virtual clock by each call
	FailAt   int           // the n-th call that can fail does fail, from 1; 0: none
	FailFrom int           // every call from the n-th on fails
	FailWith error         // what those fail with; nil: out of memory
	Base     uint64        // where addresses begin; 0: where CUDA's are on Linux
}

const (
	base        = 0x7f00_0000_0000 // where CUDA's addresses are on Linux
	granularity = 2 << 20
)

// Device is an alloc.Driver with virtual memory, streams and adoption.
type Device struct {
	mu       sync.Mutex
	cfg      Config
	next     uint64
	used     int64
	calls    int
	clock    time.Duration
	pieces   map[uint64]int64 // what Alloc gave
	ranges   map[uint64]int64 // what Reserve gave
	pages    map[uint64]bool  // mapped granules
	holes    map[int64][]uint64
	streams  map[alloc.Stream]*queue
	marks    map[alloc.Mark]mark
	lastMark alloc.Mark
	faults   []string
}

// queue is a stream: what was submitted, and how much of it is done.
type queue struct{ submitted, done int64 }

type mark struct {
	stream alloc.Stream
	at     int64
}

// New makes a device.
func New(c Config) *Device {
	if c.Capacity == 0 {
		c.Capacity = 80 << 30
	}
	if c.Base == 0 {
		c.Base = base
	}
	return &Device{cfg: c, next: c.Base, pieces: map[uint64]int64{}, ranges: map[uint64]int64{},
		pages: map[uint64]bool{}, holes: map[int64][]uint64{}, streams: map[alloc.Stream]*queue{},
		marks: map[alloc.Mark]mark{}}
}

// Calls returns the number of calls that can fail.
func (d *Device) Calls() int { d.mu.Lock(); defer d.mu.Unlock(); return d.calls }

// Used returns the bytes that are handed out.
func (d *Device) Used() int64 { d.mu.Lock(); defer d.mu.Unlock(); return d.used }

// Clock returns the virtual time that the calls took.
func (d *Device) Clock() time.Duration { d.mu.Lock(); defer d.mu.Unlock(); return d.clock }

// Faults returns what a real device would have punished: frees of what it never gave, maps over maps.
func (d *Device) Faults() []string { d.mu.Lock(); defer d.mu.Unlock(); return slices.Clone(d.faults) }

// FailFrom makes every call from now on fail with err (nil: out of memory), or none if on is false.
func (d *Device) FailFrom(on bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cfg.FailFrom, d.cfg.FailWith = 0, err
	if on {
		d.cfg.FailFrom = d.calls + 1
	}
}

func (d *Device) fault(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	d.faults = append(d.faults, err.Error())
	return err
}

func (d *Device) call() error {
	d.calls++
	d.clock += d.cfg.Latency
	if d.calls == d.cfg.FailAt || (d.cfg.FailFrom > 0 && d.calls >= d.cfg.FailFrom) {
		if d.cfg.FailWith != nil {
			return d.cfg.FailWith
		}
		return fmt.Errorf("fake device: %w: as told", alloc.ErrNoMemory)
	}
	return nil
}

// Alloc implements alloc.Driver. Addresses of freed pieces are reused for the same size, as by CUDA's driver.
func (d *Device) Alloc(size int64) (alloc.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return 0, err
	}
	if size <= 0 || size > d.cfg.Capacity-d.used {
		return 0, fmt.Errorf("fake device: %w: %d bytes of %d are free", alloc.ErrNoMemory, d.cfg.Capacity-d.used,
			d.cfg.Capacity)
	}
	d.used += size
	addr := d.place(size)
	d.pieces[addr] = size
	return alloc.Ptr(addr), nil
}

func (d *Device) place(size int64) uint64 {
	if h := d.holes[size]; len(h) > 0 {
		d.holes[size] = h[:len(h)-1]
		return h[len(h)-1]
	}
	addr := d.next
	d.next += uint64((size + granularity - 1) / granularity * granularity)
	return addr
}

// Free implements alloc.Driver.
func (d *Device) Free(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	have, ok := d.pieces[uint64(p)]
	if !ok || have != size {
		return d.fault("fake device: free of %d bytes at %#x, where there are %d", size, uint64(p), have)
	}
	delete(d.pieces, uint64(p))
	d.holes[size] = append(d.holes[size], uint64(p))
	d.used -= size
	d.clock += d.cfg.Latency
	return nil
}

// Adopt implements alloc.Adopter.
func (d *Device) Adopt(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if size > d.cfg.Capacity-d.used {
		return fmt.Errorf("fake device: adopt %d bytes: %w", size, alloc.ErrNoMemory)
	}
	d.fill(uint64(p), uint64(size))
	d.pieces[uint64(p)] = size
	d.used += size
	if end := (uint64(p) + uint64(size) + granularity - 1) / granularity * granularity; end > d.next {
		d.next = end
	}
	return nil
}

// fill forgets the freed addresses that what is adopted at p lies on: they are not free any more.
func (d *Device) fill(p, size uint64) {
	for have, list := range d.holes {
		d.holes[have] = slices.DeleteFunc(list, func(at uint64) bool { return at < p+size && p < at+uint64(have) })
	}
}

// AdoptRange implements alloc.VirtualAdopter.
func (d *Device) AdoptRange(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if uint64(p)%granularity != 0 || size%granularity != 0 {
		return d.fault("fake device: adopt %d addresses at %#x, not whole pages", size, uint64(p))
	}
	d.fill(uint64(p), uint64(size))
	d.ranges[uint64(p)] = size
	if end := uint64(p) + uint64(size); end > d.next {
		d.next = end
	}
	return nil
}

// MemInfo implements alloc.Driver.
func (d *Device) MemInfo() (free, total int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.Capacity - d.used, d.cfg.Capacity, nil
}

// Granularity implements alloc.VirtualMemory.
func (d *Device) Granularity() int64 { return granularity }

// Reserve implements alloc.VirtualMemory.
func (d *Device) Reserve(size int64) (alloc.Ptr, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return 0, err
	}
	addr := d.place(size)
	d.ranges[addr] = size
	return alloc.Ptr(addr), nil
}

// Release implements alloc.VirtualMemory.
func (d *Device) Release(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ranges[uint64(p)] != size {
		return d.fault("fake device: release of %d addresses at %#x, where there are %d", size, uint64(p),
			d.ranges[uint64(p)])
	}
	for a := uint64(p); a < uint64(p)+uint64(size); a += granularity {
		if len(d.pages) > 0 && d.pages[a] {
			return d.fault("fake device: release of addresses at %#x with memory at %#x", uint64(p), a)
		}
	}
	delete(d.ranges, uint64(p))
	d.holes[size] = append(d.holes[size], uint64(p))
	return nil
}

func (d *Device) inside(p alloc.Ptr, size int64) bool {
	for a, n := range d.ranges {
		if uint64(p) >= a && uint64(p)+uint64(size) <= a+uint64(n) {
			return true
		}
	}
	return false
}

// Map implements alloc.VirtualMemory.
func (d *Device) Map(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return err
	}
	if uint64(p)%granularity != 0 || size%granularity != 0 || !d.inside(p, size) {
		return d.fault("fake device: map of %d bytes at %#x, not in a reserved range", size, uint64(p))
	}
	if size > d.cfg.Capacity-d.used {
		return fmt.Errorf("fake device: %w: %d bytes of %d are free", alloc.ErrNoMemory, d.cfg.Capacity-d.used,
			d.cfg.Capacity)
	}
	for a := uint64(p); a < uint64(p)+uint64(size); a += granularity {
		if d.pages[a] {
			return d.fault("fake device: map over memory at %#x", a)
		}
		d.pages[a] = true
	}
	d.used += size
	return nil
}

// Unmap implements alloc.VirtualMemory.
func (d *Device) Unmap(p alloc.Ptr, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for a := uint64(p); a < uint64(p)+uint64(size); a += granularity {
		if !d.pages[a] {
			return d.fault("fake device: unmap at %#x, where there is no memory", a)
		}
		delete(d.pages, a)
	}
	d.used -= size
	d.clock += d.cfg.Latency
	return nil
}
