package replay

import (
	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

// driver is a fake device that notes what is reserved of it, exactly and at no cost to the allocations in between.
type driver struct {
	*fake.Device
	event          int // that is being replayed
	calls          int64
	reserved, peak int64
	curve          Curve
}

func (d *driver) note(bytes int64) {
	d.calls++
	d.reserved += bytes
	d.peak = max(d.peak, d.reserved)
	d.curve.add(d.event, d.reserved)
}

// begin forgets what happened so far: the opening is no part of the replay.
func (d *driver) begin() {
	d.calls, d.peak, d.curve = 0, d.reserved, Curve{}
	d.curve.add(0, d.reserved)
}

func (d *driver) Alloc(size int64) (alloc.Ptr, error) {
	p, err := d.Device.Alloc(size)
	if err == nil {
		d.note(size)
	}
	return p, err
}

func (d *driver) Free(p alloc.Ptr, size int64) error {
	err := d.Device.Free(p, size)
	if err == nil {
		d.note(-size)
	}
	return err
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
