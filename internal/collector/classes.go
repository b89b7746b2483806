package collector

import (
	"context"
	"time"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/picture"
	"github.com/memgauge/memgauge/internal/proc"
)

const (
	classesGrowth = 1.25             // the maps are read again when the job's private memory has grown so much or an agent tells of a heap, …
	classesRest   = 10 * time.Second // … and not before; a young job's not before a quarter of its age
	// A process with more resident memory is left to who asks while it lives: the kernel walks its page tables for it, some 10 ms a GiB.
	classesLimit = 8 << 30
	maxClassed   = 64 // processes of a job whose maps are read, the largest first: 8 ranks with 7 workers each
)

// classes reads now and then what the maps of the job's processes are for. When the job has ended nobody can tell any more, so its
// picture near its peak must be there by then.
type classes struct {
	fs   proc.FS
	at   time.Time
	anon int64 // bytes, of all processes when they were last read
	told int   // processes whose agents had told of their heaps then
}

// look reads the maps if the job has grown enough since the last time.
func (c *classes) look(ctx context.Context, o *Owner, age time.Duration) error {
	if time.Since(c.at) < min(classesRest, age/4) {
		return nil
	}
	type process struct {
		model.ProcessClasses
		anon, rss   int64
		inUse, held int64
	}
	var list []process
	total, told := int64(0), 0
	err := each(ctx, o.db, `SELECT pid, start_ticks, coalesce(rank, -1), coalesce(anon, 0), coalesce(rss, 0), coalesce(heap_in_use, -1),
 coalesce(heap_held, -1) FROM process.memory WHERE ts = (SELECT max(ts) FROM process.memory) ORDER BY 5 DESC`, func(v []any) {
		p := process{ProcessClasses: model.ProcessClasses{PID: int32(integer(v[0])), StartTicks: integer(v[1]), Rank: int32(integer(v[2]))},
			anon: integer(v[3]), rss: integer(v[4]), inUse: integer(v[5]), held: integer(v[6])}
		list, total = append(list, p), total+p.anon
		if p.held >= 0 {
			told++
		}
	})
	if err != nil || float64(total) < classesGrowth*float64(c.anon) && told <= c.told {
		return err
	}
	c.at, c.anon, c.told = time.Now(), total, told
	var rows model.Samples
	for _, p := range list[:min(len(list), maxClassed)] {
		m := picture.Member{PID: int(p.PID), Rank: int(p.Rank)}
		if p.inUse >= 0 && p.held >= 0 {
			m.Heap = &picture.Heap{InUse: p.inUse, Held: p.held, Mapped: proc.Unknown}
		}
		if p.rss > classesLimit || !c.fs.Alive(m.PID, uint64(p.StartTicks)) {
			continue
		}
		if row, ok := picture.Classify(c.fs, m); ok {
			row.Time, row.StartTicks = c.at.UnixMicro(), p.StartTicks
			rows.Classes = append(rows.Classes, row)
		}
	}
	o.pending.add(&rows, nil, nil)
	return nil
}
