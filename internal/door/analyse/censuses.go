package analyse

import (
	"cmp"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// mostRows of censuses are remembered from one judging to the next: some 5 MB, since most of their words come again.
const mostRows = 20_000

// seen is a row of a census as it was read. Its step may have to be told from its time, by steps that come later.
type seen struct {
	group model.ObjectGroup
	step  any
	us    int64 // since the epoch
}

// censuses are the rows of python.objects that were read before. A row never changes, and new ones come behind.
type censuses struct {
	cursor
	list  []seen
	words map[string]string
}

func (l *loader) objects() error {
	c := &censuses{}
	if s := l.o.Sources; s != nil && l.o.Until == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		c = &s.censuses
	}
	if l.counts["objects"] == 0 {
		return nil
	}
	if err := l.newObjects(c); err != nil {
		return err
	}
	count := map[int32]int{}
	for i := range c.list {
		count[c.list[i].group.PID]++
	}
	for pid, n := range count {
		l.process(pid).Objects = make([]model.ObjectGroup, 0, n)
	}
	for i := range c.list {
		r := &c.list[i]
		p := l.process(r.group.PID)
		p.Objects = append(p.Objects, r.group)
		p.Objects[len(p.Objects)-1].Step = l.censusStep(r.step, float64(r.us))
	}
	if len(c.list) > mostRows {
		*c = censuses{cursor: cursor{read: c.read}}
	}
	return nil
}

// newObjects reads what came since the last reading.
func (l *loader) newObjects(c *censuses) error {
	one := func(v any) string {
		w := word(v)
		if known, ok := c.words[w]; ok {
			return known
		}
		c.words[w] = w
		return w
	}
	before := c.read
	err := l.since(&c.cursor, "objects", `pid, census_id, step, evidence, type, count, delta, length, bytes,
 holder, site, detail, epoch_us(ts)`, "coalesce(step, 0)"+l.upTo(), func(sql string) error {
		return l.all(sql, func(v []any) {
			c.list = append(c.list, seen{step: v[2], us: integer[int64](v[12]), group: model.ObjectGroup{
				PID: integer[int32](v[0]), Census: integer[int64](v[1]), Evidence: one(v[3]), Type: one(v[4]),
				Count: integer[int64](v[5]), Delta: orNull(v[6]), Length: orNull(v[7]), Bytes: orNull(v[8]),
				Holder: one(v[9]), Site: one(v[10]), Detail: one(v[11])}})
			c.came(number(v[13]))
		})
	}, func() { c.list, c.words = nil, map[string]string{} })
	if c.read > before {
		order.Stable(c.list, func(a, b seen) int {
			return cmp.Or(cmp.Compare(a.group.Census, b.group.Census), cmp.Compare(a.us, b.us))
		})
	}
	return err
}
