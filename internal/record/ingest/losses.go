package ingest

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
)

// Reasons in memgauge.drops.
const (
	reasonOverwritten  = "overwritten"
	reasonDamaged      = "damaged"
	reasonUnknown      = "unknown kind"
	reasonCrowded      = "several threads at once"
	reasonNames        = "no room for names"
	reasonDamagedRing  = "damaged ring"
	reasonDamagedNames = "damaged names"
	reasonVersion      = "newer version"
	reasonForeign      = "not ours"
)

// losses counts a ring's lost records until they are put into a batch: at most one row of each kind for a chunk.
type losses struct {
	overwritten, lastOverwritten uint64 // how many, and the number of the newest
	damaged, damagedAt           uint64 // how many, and the number of the first
	unknown, unknownAt           uint64
	unknownKind                  uint8
}

func (l *losses) add(r *ring, c *wire.Chunk) {
	if c.Overwritten > 0 {
		l.overwritten, l.lastOverwritten = l.overwritten+c.Overwritten, c.First-1
		r.rows.gap()
	}
	if c.Damaged > 0 {
		if l.damaged == 0 {
			l.damagedAt = c.DamagedAt
		}
		l.damaged += c.Damaged
	}
}

// putLosses moves a ring's losses into the batch, together with the cursor that covers them.
func (in *Ingester) putLosses(r *ring) {
	l := r.lost
	if l == (losses{}) {
		return
	}
	r.lost = losses{}
	if l.overwritten > 0 {
		in.stats.Overwritten += l.overwritten
		in.drop(r, model.Drop{Reason: reasonOverwritten, Records: int64(min(l.overwritten, 1<<62)),
			Detail: fmt.Sprintf("records %d to %d", l.lastOverwritten-l.overwritten+1, l.lastOverwritten)})
	}
	if l.damaged > 0 {
		in.stats.Damaged += l.damaged
		in.drop(r, model.Drop{Reason: reasonDamaged, Records: int64(l.damaged),
			Detail: fmt.Sprintf("from record %d at byte %d", l.damagedAt, r.SlotOffset(l.damagedAt))})
	}
	if l.unknown > 0 {
		in.stats.Unknown += l.unknown
		in.drop(r, model.Drop{Reason: reasonUnknown, Records: int64(l.unknown),
			Detail: fmt.Sprintf("kind %d, from record %d", l.unknownKind, l.unknownAt)})
	}
}

// drop puts a row into the batch, or adds to the one that is there for this ring and reason.
func (in *Ingester) drop(r *ring, d model.Drop) {
	for i := range in.batch.Drops {
		if o := &in.batch.Drops[i]; o.Source == r.file && o.Reason == d.Reason {
			o.Records += d.Records
			return
		}
	}
	d.Time, d.PID, d.Source = in.opts.Now().UnixMicro(), r.name.pid, r.file
	in.batch.Drops = append(in.batch.Drops, d)
}
