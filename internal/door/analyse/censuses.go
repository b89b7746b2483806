package analyse

import (
	"cmp"
	"fmt"

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
	rows  []seen
	last  int64 // µs since the epoch
	words map[string]string
	read  int // rows, of all readings, for tests
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
	for i := range c.rows {
		count[c.rows[i].group.PID]++
	}
	for pid, n := range count {
		l.process(pid).Objects = make([]model.ObjectGroup, 0, n)
	}
	for i := range c.rows {
		r := &c.rows[i]
		p := l.process(r.group.PID)
		p.Objects = append(p.Objects, r.group)
		p.Objects[len(p.Objects)-1].Step = l.censusStep(r.step, float64(r.us))
	}
	if len(c.rows) > mostRows {
		*c = censuses{read: c.read}
	}
	return nil
}

// newObjects reads what came since the last reading; all, where rows were dropped meanwhile or came late.
func (l *loader) newObjects(c *censuses) error {
	for range 2 {
		if err := l.objectsAfter(c); err != nil {
			return err
		}
		count := 0
		err := l.all(fmt.Sprintf(`SELECT count(*) FROM python.objects WHERE coalesce(step, 0)%s AND epoch_us(ts) <= %d`,
			l.upTo(), c.last), func(v []any) { count = int(number(v[0])) })
		if err != nil || count == len(c.rows) {
			return err
		}
		*c = censuses{read: c.read}
	}
	return l.objectsAfter(c) // it changes as fast as it is read
}

func (l *loader) objectsAfter(c *censuses) error {
	if c.words == nil {
		c.words = map[string]string{}
	}
	one := func(v any) string {
		w := word(v)
		if known, ok := c.words[w]; ok {
			return known
		}
		c.words[w] = w
		return w
	}
	before := len(c.rows)
	err := l.all(fmt.Sprintf(`SELECT pid, census_id, step, evidence, type, count, delta, length, bytes, holder, site,
 detail, epoch_us(ts) FROM python.objects
 WHERE coalesce(step, 0)%s AND epoch_us(ts) > %d`, l.upTo(), c.last), func(v []any) {
		c.rows = append(c.rows, seen{step: v[2], us: integer[int64](v[12]), group: model.ObjectGroup{
			PID: integer[int32](v[0]), Census: integer[int64](v[1]), Evidence: one(v[3]), Type: one(v[4]),
			Count: integer[int64](v[5]), Delta: orNull(v[6]), Length: orNull(v[7]), Bytes: orNull(v[8]),
			Holder: one(v[9]), Site: one(v[10]), Detail: one(v[11])}})
	})
	for _, r := range c.rows[before:] {
		c.last = max(c.last, r.us)
	}
	c.read += len(c.rows) - before
	if len(c.rows) > before {
		order.Stable(c.rows, func(a, b seen) int {
			return cmp.Or(cmp.Compare(a.group.Census, b.group.Census), cmp.Compare(a.us, b.us))
		})
	}
	return err
}
