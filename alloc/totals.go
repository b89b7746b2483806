package alloc

import "sync"

// dealtShards is the number of shards up to which peaks are settled by dealing out room below them (Allocator.settle).
// In that scheme each free leaves room with its shard, and the next allocation on another stream must fetch it, which
// means a pass over all shards. With more shards, each operation adds to one sum instead: that takes a lock and some 50
// additions, whatever the number of streams.
const dealtShards = 2

// totals are the sums over all shards, if there are many. A shard adds what an operation changed at the operation's
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

// publishAll publishes what one operation changed in several shards, as one change of the sums. All are frozen.
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

// mirror copies the peaks to where they are read, and those of gauges that are not counted yet.
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
