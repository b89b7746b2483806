package collector

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/owner"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/probe/proc"
	"github.com/memgauge/memgauge/internal/probe/sampler"
	"github.com/memgauge/memgauge/internal/record/session"
)

const (
	// Maps are read again when the job's private memory has grown by this factor, or a process or an agent is new, …
	classesGrowth = 1.25
	classesRest   = 10 * time.Second // … and not before; a young job's not before a quarter of its age, …
	classesShare  = 50               // … and so many times what the last reading took: some 70 ms with torch
	// The maps of a process with more resident bytes are read only on request: the kernel walks its page tables for
	// that, some 10 ms a GiB.
	classesLimit = 8 << 30
	// processes of a job whose maps are read at a time, the largest first: 8 ranks with 7 workers each
	maxClassed = 64
)

// classes reads the maps of the job's processes now and then, and queries their agents how malloc and Python use the
// heap. After the job's end neither can be read, so the classes near its peak must be stored before.
type classes struct {
	s    *session.Session
	fs   proc.FS
	at   time.Time
	took time.Duration        // CPU time of the last reading
	anon int64                // bytes, of all processes when they were last read
	read map[session.Pid]bool // the processes that were read then: whether they had an agent
}

// classed is a process of the last sample.
type classed struct {
	session.Pid
	rank      int
	anon, rss int64         // bytes
	heap      *picture.Heap // the last reading that its agent wrote by itself; nil if there is none
}

// look reads the maps if the job has grown enough since the last time, or a process or its agent is new. It reads those
// of all processes, since they share memory.
func (c *classes) look(ctx context.Context, o *owner.Owner, age time.Duration) {
	if time.Since(c.at) < classesAfter(age, c.took) {
		return
	}
	list, total := sampled(o)
	agents := map[session.Pid]session.Process{}
	for _, p := range c.s.Processes() {
		agents[p.Pid] = p
	}
	if float64(total) < classesGrowth*float64(c.anon) && !c.someoneCame(list, agents) {
		return
	}
	c.at, c.anon, c.read = time.Now(), total, make(map[session.Pid]bool, len(list))
	var asked []session.Process
	for _, p := range list {
		agent, has := agents[p.Pid]
		c.read[p.Pid] = has
		asked = append(asked, agent) // empty if it has no agent: then it is not queried
	}
	c.took = sampler.ThreadTime(func() { c.store(o, list, service.Heaps(ctx, asked)) })
}

// someoneCame reports whether there is a process that was not read last time, or that had no agent then and has one
// now.
func (c *classes) someoneCame(list []classed, agents map[session.Pid]session.Process) bool {
	return slices.ContainsFunc(list, func(p classed) bool {
		had, read := c.read[p.Pid]
		_, has := agents[p.Pid]
		return !read || has && !had
	})
}

// sampled lists the processes of the last sample whose maps may be read, the largest first, and adds up the private
// memory of all, in bytes.
func sampled(o *owner.Owner) (list []classed, total int64) {
	rows := o.Newest()
	order.By(rows, func(a, b model.ProcessMemory) int { return cmp.Compare(b.RSS, a.RSS) })
	for i := range rows {
		r := &rows[i]
		total += max(r.Anon, 0)
		if r.RSS > classesLimit || len(list) == maxClassed {
			continue
		}
		p := classed{rank: int(r.Rank), anon: max(r.Anon, 0), rss: max(r.RSS, 0)}
		p.PID, p.Start = int(r.PID), uint64(r.StartTicks)
		if r.HeapInUse >= 0 && r.HeapHeld >= 0 {
			p.heap = &picture.Heap{InUse: r.HeapInUse, Held: r.HeapHeld, Mapped: proc.Unknown}
		}
		list = append(list, p)
	}
	return list, total
}

// store adds a row for each process that still lives.
func (c *classes) store(o *owner.Owner, list []classed, heaps map[int]*picture.Heap) {
	var rows model.Samples
	for _, p := range list {
		if !c.fs.Alive(p.PID, p.Start) {
			continue
		}
		m := picture.Member{PID: p.PID, Rank: p.rank, Heap: heaps[p.PID]}
		if m.Heap == nil {
			m.Heap = p.heap
		}
		if row, ok := picture.Classify(c.fs, m); ok {
			row.Time, row.StartTicks = c.at.UnixMicro(), int64(p.Start)
			rows.Classes = append(rows.Classes, row)
		}
	}
	o.Add(&model.Batch{Samples: rows})
}
