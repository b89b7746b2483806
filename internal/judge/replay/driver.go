package replay

import (
	"cmp"
	"slices"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// driver is a fake device that records what is reserved of it, exactly and at no cost to the allocations in between.
type driver struct {
	*fake.Device
	event          int // the event that is being replayed
	capacity       int64
	calls          int64
	reserved, peak int64
	curve          Curve

	// A replay of the recorded settings gets the recorded addresses: among blocks of equal size PyTorch prefers low
	// addresses.
	base  uint64 // recorded addresses lie below
	next  []span // segments that the recorded allocator got for the current allocation
	taken []span // recorded addresses that are in use, by address
}

type span struct {
	addr uint64
	size int64
}

func (d *driver) note(bytes int64) {
	d.calls++
	d.reserved += bytes
	d.peak = max(d.peak, d.reserved)
	d.curve.add(d.event, d.reserved)
}

// begin discards what has happened so far: the opening is no part of the replay.
func (d *driver) begin() {
	d.calls, d.peak, d.curve = 0, d.reserved, Curve{}
	d.curve.add(0, d.reserved)
}

func (d *driver) Alloc(size int64) (alloc.Ptr, error) {
	p, err := d.place(size)
	if err == nil {
		d.note(size)
	}
	return p, err
}

// place takes the recorded address, if the recorded allocator requested as much at this moment and the address is free.
func (d *driver) place(size int64) (alloc.Ptr, error) {
	if i := slices.IndexFunc(d.next, func(s span) bool { return s.size == size }); i >= 0 {
		s := d.next[i]
		d.next = slices.Delete(d.next, i, i+1)
		if d.adopt(s) {
			return alloc.Ptr(s.addr), nil
		}
	}
	p, err := d.Device.Alloc(size)
	if err == nil && uint64(p) < d.base { // a recorded address that was given back
		d.take(span{uint64(p), size})
	}
	return p, err
}

func (d *driver) take(s span) {
	i, _ := d.find(s.addr)
	d.taken = slices.Insert(d.taken, i, s)
}

func (d *driver) find(addr uint64) (int, bool) {
	return slices.BinarySearchFunc(d.taken, addr, func(t span, a uint64) int { return cmp.Compare(t.addr, a) })
}

// adopt takes a range of recorded addresses, if they are free and the device has room.
func (d *driver) adopt(s span) bool {
	i, found := d.find(s.addr)
	if found || (i < len(d.taken) && s.addr+uint64(s.size) > d.taken[i].addr) ||
		(i > 0 && d.taken[i-1].addr+uint64(d.taken[i-1].size) > s.addr) ||
		d.Device.Adopt(alloc.Ptr(s.addr), s.size) != nil {
		return false
	}
	d.taken = slices.Insert(d.taken, i, s)
	return true
}

func (d *driver) Adopt(p alloc.Ptr, size int64) error {
	err := d.Device.Adopt(p, size)
	if err == nil {
		d.reserved += size
		d.take(span{uint64(p), size})
	}
	return err
}

func (d *driver) Free(p alloc.Ptr, size int64) error {
	err := d.Device.Free(p, size)
	if err != nil {
		return err
	}
	d.note(-size)
	if i, found := d.find(uint64(p)); found {
		d.taken = slices.Delete(d.taken, i, i+1)
	}
	return nil
}

func (d *driver) Map(p alloc.Ptr, size int64) error {
	err := d.Device.Map(p, size)
	if err == nil {
		d.note(size)
	}
	return err
}

func (d *driver) Unmap(p alloc.Ptr, size int64) error {
	err := d.Device.Unmap(p, size)
	if err == nil {
		d.note(-size)
	}
	return err
}
