package alloc

import "sync"

// dealtShards is up to how many shards peaks are settled by dealing out room below them (Allocator.settle). There each
// free leaves room with its shard that the next allocation on another stream has to fetch, at the price of a look at
// all shards. With more of them each operation adds to one sum instead: a lock and some 50 additions, whatever the
// number of streams.
const dealtShards = 2

// totals are the sums over all shards, where there are many. A shard adds what an operation changed at the operation's
// end.
type totals struct {
	sync.Mutex
	now, peak [numGauges]int64
}

// publish adds what has changed in a shard since the last time. The caller holds s, or has frozen it.
func (a *Allocator) publish(s *shard) {
	t := &a.totals
	t.Lock()
	for i, v := range s.cur {
		if d := v - s.summed[i]; d != 0 {
			s.summed[i] = v
			n := t.now[i] + d
			t.now[i] = n
			t.peak[i] = max(t.peak[i], n)
		}
	}
	t.Unlock()
	s.over = 0
}

// publishAll is publish of what one operation changed in several shards: it is one change of the sums. All are frozen.
func (a *Allocator) publishAll(all []*shard) {
	t := &a.totals
	t.Lock()
	defer t.Unlock()
	for _, s := range all {
		s.mirror()
		for i, v := range s.cur {
			t.now[i] += v - s.summed[i]
			s.summed[i] = v
		}
		s.over = 0
	}
	for i, v := range t.now {
		t.peak[i] = max(t.peak[i], v)
	}
}

// sumUp changes from dealing to sums. The caller holds the device lock and has frozen the shards.
func (a *Allocator) sumUp(all []*shard) {
	a.deal()
	a.totals.now, a.totals.peak = sumOf(all), a.peak
	for _, s := range all {
		now := s.cur
		s.summed = &now
		s.unlimited()
	}
}

// mirror copies the peaks to where they are read, and those of gauges that nobody counts yet.
func (t *totals) mirror(active bool, to *[numGauges]int64) {
	t.Lock()
	defer t.Unlock()
	if !active {
		for _, m := range mirrored {
			from, at := int(m[0])*numScopes, int(m[1])*numScopes
			copy(t.now[at:at+numScopes], t.now[from:from+numScopes])
			copy(t.peak[at:at+numScopes], t.peak[from:from+numScopes])
		}
	}
	*to = t.peak
}

// restart makes the present sums the peaks.
func (t *totals) restart() {
	t.Lock()
	defer t.Unlock()
	t.peak = t.now
}
