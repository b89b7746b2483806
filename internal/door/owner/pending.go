package owner

import (
	"slices"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// storeRows is the number of pending samples from which they are stored at once. At 10 Hz and 100 processes it is 20 s
// and 6 MiB.
const storeRows = 20_000

// Add copies a batch's samples, overheads and events to the pending ones. Other rows of the batch are ignored.
func (o *Owner) Add(b *model.Batch) { o.pending.add(b) }

// Newest returns the job's processes as they were last sampled.
func (o *Owner) Newest() []model.ProcessMemory {
	o.pending.Lock()
	defer o.pending.Unlock()
	return slices.Clone(o.pending.newest)
}

// StoringCost returns a row of memgauge.overhead: the CPU time of storing samples since the last call, for the same
// interval as another part's row.
func (o *Owner) StoringCost(like model.Overhead) model.Overhead { return o.pending.storing(like) }

// pending holds samples that are not stored yet.
type pending struct {
	sync.Mutex
	samples   model.Samples
	overheads []model.Overhead
	events    []model.Event
	drops     []model.Drop
	since     time.Time // of the oldest
	newest    []model.ProcessMemory

	took  time.Duration // CPU time of storing since the last row about it
	times int64
}

func (p *pending) stored(took time.Duration) {
	p.Lock()
	defer p.Unlock()
	p.took, p.times = p.took+took, p.times+1
}

// storing is the row of memgauge.overhead for what storing has cost in the same stretch as another part.
func (p *pending) storing(like model.Overhead) model.Overhead {
	p.Lock()
	defer p.Unlock()
	like.Part, like.NS, like.Count = "sampler: store", int64(p.took), p.times
	p.took, p.times = 0, 0
	return like
}

func (p *pending) add(b *model.Batch) {
	p.Lock()
	defer p.Unlock()
	if p.since.IsZero() {
		p.since = time.Now()
	}
	if len(b.Samples.Memory) > 0 {
		p.newest = append(p.newest[:0], b.Samples.Memory...)
	}
	p.samples.Add(&b.Samples)
	p.overheads, p.events = append(p.overheads, b.Overheads...), append(p.events, b.Events...)
}

// take moves all pending rows into a batch; it returns nil if none of them is older than wait.
func (p *pending) take(now time.Time, wait time.Duration) *model.Batch {
	p.Lock()
	defer p.Unlock()
	if p.since.IsZero() || now.Sub(p.since) < wait && p.samples.Rows() < storeRows {
		return nil
	}
	b := &model.Batch{Samples: p.samples, Overheads: p.overheads, Events: p.events, Drops: p.drops}
	p.samples, p.overheads, p.events, p.drops, p.since = model.Samples{}, nil, nil, nil, time.Time{}
	return b
}

// back requeues a batch that could not be stored, ahead of newer rows. Samples beyond the bound are dropped and
// counted.
func (p *pending) back(b *model.Batch) {
	p.Lock()
	defer p.Unlock()
	if b.Rows() > 4*storeRows {
		at := time.Now().UnixMicro()
		lost := model.Drop{Time: at, Source: "samplers", Reason: "database not writable", Records: int64(b.Rows())}
		b = &model.Batch{Events: b.Events, Drops: append(b.Drops, lost)}
	}
	b.Samples.Add(&p.samples)
	p.samples, p.overheads, p.events = b.Samples, append(b.Overheads, p.overheads...), append(b.Events, p.events...)
	p.drops = append(b.Drops, p.drops...)
	if p.since.IsZero() {
		p.since = time.Now()
	}
}
