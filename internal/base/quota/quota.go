// Package quota bounds what is kept of many senders together: where all of it is too much, those that have most give
// way. It counts alone; who calls it says what a sender has, and forgets what is to go. Names are a sender's to make
// up, so a sender has an origin, too, such as its address: first gives way who has most of all from the origin that has
// most. What is so little that as many senders as there may be have room for it is nobody's to take.
package quota

import (
	"cmp"
	"container/heap"
	"slices"
)

// Quota is what senders have. It is for one goroutine at a time.
type Quota struct {
	most  int64 // of all together
	share int64 // what each may have, whatever others do
	sum   int64
	of    map[string]*holding
	came  uint64 // counts senders
}

// holding is a sender's.
type holding struct {
	name, origin string
	has          int64
	came         uint64
}

// New bounds what all have, of so many senders.
func New(most int64, senders int) *Quota {
	return &Quota{most: most, share: most / int64(senders), of: map[string]*holding{}}
}

// Set says what a sender has now, and where it is; nothing forgets it.
func (q *Quota) Set(name, origin string, has int64) {
	h := q.of[name]
	switch {
	case h == nil && has <= 0:
		return
	case h == nil:
		q.came++
		h = &holding{name: name, came: q.came}
		q.of[name] = h
	case has <= 0:
		delete(q.of, name)
	}
	q.sum += max(has, 0) - h.has
	h.origin, h.has = origin, max(has, 0)
}

// Has is what a sender has.
func (q *Quota) Has(name string) int64 {
	if h := q.of[name]; h != nil {
		return h.has
	}
	return 0
}

// Sum is what all have.
func (q *Quota) Sum() int64 { return q.sum }

// Yield names who gives up all that it has, and counts it no more; nobody unless all have too much. Then a sixteenth is
// made free, so that it need not be looked for again at once.
func (q *Quota) Yield() (names []string) {
	if q.sum <= q.most {
		return nil
	}
	for _, share := range []int64{q.share, 0} { // the latter where there are more senders than there may be
		all := q.origins(share)
		for len(all) > 0 && q.sum > q.most-q.most/16 {
			one := all[0]
			last := one.list[len(one.list)-1]
			names = append(names, last.name)
			one.has, one.list = one.has-last.has, one.list[:len(one.list)-1]
			q.Set(last.name, last.origin, 0)
			if len(one.list) == 0 {
				heap.Pop(&all)
			} else {
				heap.Fix(&all, 0)
			}
		}
	}
	return names
}

// origins are those of senders that have more than a share: the one that has most first.
func (q *Quota) origins(share int64) (all byMost) {
	at := map[string]*origin{}
	for _, h := range q.of {
		if at[h.origin] == nil {
			at[h.origin] = &origin{}
		}
		one := at[h.origin]
		if one.has += h.has; h.has > share {
			one.list = append(one.list, h)
		}
	}
	for _, one := range at {
		if len(one.list) == 0 {
			continue
		}
		slices.SortFunc(one.list, func(a, b *holding) int { // of equals the newer goes first
			return cmp.Or(cmp.Compare(a.has, b.has), cmp.Compare(a.came, b.came))
		})
		all = append(all, one)
	}
	heap.Init(&all)
	return all
}

// origin is one with those of its senders that may have to give way, the first to go last.
type origin struct {
	has  int64
	list []*holding
}

// byMost is a heap.
type byMost []*origin

func (b byMost) Len() int           { return len(b) }
func (b byMost) Less(i, j int) bool { return b[i].has > b[j].has }
func (b byMost) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// Push is heap's.
func (b *byMost) Push(x any) { *b = append(*b, x.(*origin)) }

// Pop is heap's.
func (b *byMost) Pop() any {
	last := (*b)[len(*b)-1]
	*b = (*b)[:len(*b)-1]
	return last
}
