package fake

import "github.com/memgauge/memgauge/alloc"

// Submit queues n units of work on a stream.
func (d *Device) Submit(s alloc.Stream, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue(s).submitted += n
}

// Run makes the device do n units of the stream's queued work.
func (d *Device) Run(s alloc.Stream, n int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	q := d.queue(s)
	q.done = min(q.submitted, q.done+n)
}

func (d *Device) queue(s alloc.Stream) *queue {
	q := d.streams[s]
	if q == nil {
		q = &queue{}
		d.streams[s] = q
	}
	return q
}

// Record implements alloc.Streams.
func (d *Device) Record(s alloc.Stream) (alloc.Mark, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.call(); err != nil {
		return 0, err
	}
	d.lastMark++
	d.marks[d.lastMark] = mark{s, d.queue(s).submitted}
	return d.lastMark, nil
}

// Query implements alloc.Streams.
func (d *Device) Query(m alloc.Mark) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.marks[m]
	if !ok {
		return false, d.fault("fake device: query of mark %d, which is not", m)
	}
	return d.queue(at.stream).done >= at.at, nil
}

// Wait implements alloc.Streams: the device does what is queued before the mark.
func (d *Device) Wait(m alloc.Mark) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	at, ok := d.marks[m]
	if !ok {
		return d.fault("fake device: wait for mark %d, which is not", m)
	}
	q := d.queue(at.stream)
	q.done = max(q.done, at.at)
	return nil
}

// Forget implements alloc.Streams.
func (d *Device) Forget(m alloc.Mark) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, ok := d.marks[m]; !ok {
		return d.fault("fake device: forget mark %d, which is not", m)
	}
	delete(d.marks, m)
	return nil
}

// WaitAll implements alloc.Streams.
func (d *Device) WaitAll() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, q := range d.streams {
		q.done = q.submitted
	}
	return nil
}

// Marks returns how many marks are not forgotten: 0 when the allocator has none pending.
func (d *Device) Marks() int { d.mu.Lock(); defer d.mu.Unlock(); return len(d.marks) }
