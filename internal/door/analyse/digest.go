package analyse

import (
	"cmp"
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

const (
	// mostBuckets of a digest: of a long run at least half as many, so that the judge's shortest window, a seventh,
	// still has 64 stretches of eight.
	mostBuckets = 8192

	// mostDigests are kept from one judging to the next, of some 0.7 MB each at most. More processes that make steps
	// are read anew each time.
	mostDigests = 64
)

// at is a step and when it ended, in µs since the epoch.
type at struct{ step, us float64 }

// floor is the least of what was read in a bucket, and the first step that had it; +Inf where nothing was read.
type floor struct{ step, bytes float64 }

// bucket is what the rows of some neighbouring steps told.
type bucket struct {
	floors [4]floor
	end    at      // of the last step; -Inf µs where there is none
	tokens float64 // that were worked on; NaN where nobody told
}

var emptyBucket = func() (b bucket) {
	for i := range b.floors {
		b.floors[i].bytes = math.Inf(1)
	}
	b.end, b.tokens = at{math.NaN(), math.Inf(-1)}, math.NaN()
	return b
}()

// take counts what series i had at a step; NaN was not read.
func (b *bucket) take(i int, step, bytes float64) {
	if f := &b.floors[i]; bytes < f.bytes || bytes == f.bytes && step < f.step {
		*f = floor{step, bytes}
	}
}

// merge counts what another bucket has.
func (b *bucket) merge(o *bucket) {
	for i, f := range o.floors {
		b.take(i, f.step, f.bytes)
	}
	b.ended(o.end)
	b.tokens = plus(b.tokens, o.tokens)
}

func (b *bucket) ended(e at) {
	b.end.us = max(b.end.us, e.us)
	if !(b.end.step > e.step) && !math.IsNaN(e.step) {
		b.end.step = e.step
	}
}

// digest is what the rows of a process's steps of one kind told, however many they are. Buckets are 2^shift steps wide,
// the narrowest that are few enough, and begin at multiples of that: the same rows give the same digest in any order,
// and in parts.
type digest struct {
	list  []bucket
	shift uint
	first int     // what the first bucket's steps are, divided by their number
	high  float64 // the highest step
	full  float64 // garbage collections of the oldest generation
	rank  float64 // NaN unknown
}

func newDigest() *digest { return &digest{rank: math.NaN()} }

// of is the bucket of a step from 0.
func (d *digest) of(step float64) *bucket {
	d.high = max(d.high, step)
	n := int(min(step, 1<<60))
	if len(d.list) == 0 {
		d.first = n >> d.shift
	}
	for {
		i := n>>d.shift - d.first
		if i >= 0 && i < len(d.list) {
			return &d.list[i]
		}
		if max(i+1, len(d.list))-min(i, 0) > mostBuckets {
			d.halve()
			continue
		}
		if i < 0 { // late rows of earlier steps: rare
			d.list = slices.Insert(d.list, 0, slices.Repeat([]bucket{emptyBucket}, -i)...)
			d.first += i
			return &d.list[0]
		}
		for len(d.list) <= i {
			d.list = append(d.list, emptyBucket)
		}
		return &d.list[i]
	}
}

// halve makes buckets of twice as many steps.
func (d *digest) halve() {
	first := d.first >> 1
	for i := range d.list {
		to := (d.first+i)>>1 - first
		b := d.list[i]
		if 2*(first+to) == d.first+i || i == 0 {
			d.list[to] = b
		} else {
			d.list[to].merge(&b)
		}
	}
	if n := len(d.list); n > 0 {
		d.list = d.list[:(d.first+n-1)>>1-first+1]
	}
	d.first, d.shift = first, d.shift+1
}

// series are the floors of series i.
func (d *digest) series(i int) (s detect.Series) {
	n := 0
	for k := range d.list {
		if !math.IsInf(d.list[k].floors[i].bytes, 1) {
			n++
		}
	}
	s.Steps, s.Bytes = make([]float64, 0, n), make([]float64, 0, n)
	for k := range d.list {
		if f := d.list[k].floors[i]; !math.IsInf(f.bytes, 1) {
			s.Steps, s.Bytes = append(s.Steps, f.step), append(s.Bytes, f.bytes)
		}
	}
	return s
}

// clock makes the clock of the steps' ends. One that was set back tells no order.
func (d *digest) clock() *clock {
	c := &clock{}
	for i := range d.list {
		e := d.list[i].end
		if n := len(c.us); !math.IsNaN(e.step) && (n == 0 || e.us > c.us[n-1]) {
			c.us, c.steps = append(c.us, e.us), append(c.steps, e.step)
		}
	}
	return c
}

// kind says which rows a digest is of.
type kind struct {
	pid       int32
	inference bool
	work      float64 // of steps a place in wire.WorkKinds, of devices' rows a code of main.device
}

func byKind(a, b kind) int {
	inference := func(k kind) int {
		if k.inference {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.pid, b.pid), inference(a)-inference(b), cmp.Compare(a.work, b.work))
}

// digests are what was read of a table of steps.
type digests struct {
	cursor
	of map[kind]*digest
}

// kinds are those that there are digests of, in order.
func (s *digests) kinds() []kind {
	list := make([]kind, 0, len(s.of))
	for k := range s.of {
		list = append(list, k)
	}
	order.By(list, byKind)
	return list
}

// known is the digest of a kind, made when it is first met.
func (s *digests) known(k kind) *digest {
	d := s.of[k]
	if d == nil {
		d = newDigest()
		s.of[k] = d
	}
	return d
}

// stepRows is a table of steps' rows, and how one becomes part of a digest. Its columns begin with the PID, whether the
// step is inference, the kind, and the step.
type stepRows struct {
	stored, columns string // stored: the table's name in schema store
	take            func(d *digest, step float64, v []float64)
	keep            func(s *Sources) *digests
}

const kindColumns = 4

// digest reads what came since the last reading, and has the whole used. Who asks as of an earlier step, or keeps
// nothing, reads all that counts.
func (l *loader) digest(t *stepRows, use func(s *digests) error) error {
	s := &digests{}
	if from := l.o.Sources; from != nil && l.o.Until == 0 {
		from.mu.Lock()
		defer from.mu.Unlock()
		if s = t.keep(from); len(s.of) > mostDigests {
			*s = digests{}
		}
	}
	var k kind
	var d *digest
	err := l.since(&s.cursor, t.stored, t.columns, "step"+l.upTo(), func(sql string) error {
		return l.floats(sql, func(v []float64) {
			// rows of a kind mostly follow each other
			if at := (kind{int32(v[0]), v[1] != 0, v[2]}); d == nil || at != k {
				k, d = at, s.known(at)
			}
			t.take(d, v[3], v[kindColumns:])
			s.came(v[len(v)-1])
		})
	}, func() { s.of, d = map[kind]*digest{}, nil })
	if err != nil {
		return err
	}
	return use(s)
}
