package analyse

import (
	"fmt"
	"math"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// buckets is how many floors of each series are read: the judge's shortest window, a seventh, still has 64 stretches of
// eight.
const buckets = 4096

// extent is from which step to which a process's rows count.
type extent struct {
	low, high float64
	trains    bool    // it has rows of training: forwards before the first optimizer step then count by themselves
	work      float64 // what its steps are, a place in wire.WorkKinds; those of other kinds don't count
}

// counts says whether a row counts.
func (e *extent) counts(inference bool) bool { return e != nil && !(inference && e.trains) }

func (e *extent) hasTraining() bool { return e != nil && e.trains }

// widen takes steps into the extent; NaN for none.
func (e *extent) widen(low, high float64) {
	if !math.IsNaN(low) {
		e.low, e.high = min(e.low, low), max(e.high, high)
	}
}

func newExtent(trains bool) *extent {
	return &extent{low: math.Inf(1), high: math.Inf(-1), trains: trains}
}

// bucket is the stretch that a step falls into: of buckets of equal width, of which none is narrower than a step. Steps
// that came after the extent was read fall into the outermost ones.
func (e *extent) bucket(step float64) int {
	return int(max(0, min(buckets, (step-e.low)/max(1, (e.high-e.low)/buckets))))
}

// floor is the least of what was read in a bucket, and the first step that had it.
type floor struct{ step, bytes float64 }

// floors are of some series, bucket by bucket: count of them lie side by side. The zero floor is of no reading.
type floors struct {
	count int
	list  []floor
}

// take counts what series i had at a step; NaN was not read.
func (f *floors) take(bucket, i int, step, bytes float64) {
	if math.IsNaN(bytes) {
		return
	}
	for len(f.list) < (bucket+1)*f.count {
		f.list = append(f.list, floor{math.NaN(), math.Inf(1)})
	}
	if at := &f.list[bucket*f.count+i]; bytes < at.bytes {
		*at = floor{step, bytes}
	}
}

// series is series i.
func (f *floors) series(i int) (s detect.Series) {
	for ; i < len(f.list); i += f.count {
		if at := f.list[i]; !math.IsNaN(at.step) {
			s.Steps, s.Bytes = append(s.Steps, at.step), append(s.Bytes, at.bytes)
		}
	}
	return s
}

// made is what a process's steps told.
type made struct {
	pid int32
	*extent
	floors           // heap, anonymous, private, blocks
	ends   []at      // of buckets, in order
	tokens []float64 // of buckets, of processes that serve; NaN where nobody told
	full   float64
	rank   float64 // NaN unknown
}

// at is a step and when it ended, in µs since the epoch.
type at struct{ step, us float64 }

// span finds who trains, and how long.
func (l *loader) span() error {
	sql := fmt.Sprintf(`SELECT pid, coalesce(inference, true), min(step) FILTER (step%[1]s),
 max(step) FILTER (step%[1]s), max(step), `+workOf+` AS work FROM python.steps
 GROUP BY ALL ORDER BY pid, 2, max(step) DESC`, l.upTo())
	longest := 0.0
	return l.floats(sql, func(v []float64) { // of each process rows of training come first, of these the newest kind
		pid, inference := int32(v[0]), v[1] != 0
		e := l.extents[pid]
		if e == nil {
			e = newExtent(!inference)
			e.work = v[5]
			l.extents[pid] = e
		}
		if e.counts(inference) && v[5] == e.work {
			e.widen(v[2], v[3])
		}
		if v[3] > 0 {
			l.process(pid)
		}
		if v[3] > l.most {
			l.most, l.trainer = v[3], pid
		}
		if v[4] > longest {
			longest, l.longest = v[4], pid
		}
	})
}

// hostSeries reads floors of what the agent took at step ends: rows tell of the host whatever device they show besides.
func (l *loader) hostSeries() error {
	by := map[int32]*made{}
	var m *made
	sql := `SELECT pid, coalesce(inference, true), step, epoch_us(ts), heap_in_use, anon, heap_held, py_blocks, gc_full,
 rank, ` + workOf + `, tokens FROM python.steps WHERE step` + l.upTo()
	err := l.floats(sql, func(v []float64) {
		pid, step, us := int32(v[0]), v[2], v[3]
		if pid == l.longest {
			l.hosts.step(us, step)
		}
		if m == nil || m.pid != pid { // rows of a process mostly come one after the other
			if m = by[pid]; m == nil {
				m = &made{pid: pid, extent: l.extents[pid], floors: floors{count: 4}, rank: math.NaN()}
				by[pid] = m
			}
		}
		if !m.counts(v[1] != 0) || v[10] != m.work {
			return
		}
		i := m.bucket(step)
		m.take(i, 0, step, v[4])
		m.take(i, 1, step, v[5])
		m.take(i, 2, step, v[5]-v[6])
		m.take(i, 3, step, v[7])
		m.end(i, at{step, us})
		m.worked(i, v[11])
		if v[8] > 0 {
			m.full += v[8]
		}
		if !math.IsNaN(v[9]) {
			m.rank = v[9]
		}
	})
	for pid, m := range by {
		if len(m.ends) > 0 {
			l.clocks[pid] = m.tell(l.process(pid))
		}
	}
	if c := l.clocks[l.trainer]; c != nil && l.o.Until > 0 && len(c.us) > 0 {
		l.until = c.last()
	}
	return err
}

// workOf is what a step is: 0 of a training, else a place in wire.WorkKinds. Forwards before an optimizer steps may be
// a training by hand, and go by its rules.
var workOf = `CASE WHEN coalesce(inference, true) THEN 0 ELSE
 coalesce(list_position(['` + strings.Join(wire.WorkKinds[1:], "', '") + `'], kind::VARCHAR), 0) END::DOUBLE`

// worked counts tokens, NaN for those that nobody told.
func (m *made) worked(bucket int, tokens float64) {
	if m.work == 0 {
		return
	}
	for len(m.tokens) <= bucket {
		m.tokens = append(m.tokens, math.NaN())
	}
	m.tokens[bucket] = plus(m.tokens[bucket], tokens)
}

// end counts the end of a step.
func (m *made) end(bucket int, step at) {
	for len(m.ends) <= bucket {
		m.ends = append(m.ends, at{math.NaN(), math.Inf(-1)})
	}
	e := &m.ends[bucket]
	if e.us = max(e.us, step.us); !(e.step > step.step) {
		e.step = step.step
	}
}

// tell gives a process what its steps told, and makes the clock of them.
func (m *made) tell(p *detect.Process) *clock {
	p.Heap, p.Anon, p.Private, p.Blocks = m.series(0), m.series(1), m.series(2), m.series(3)
	p.Full = m.full
	if !math.IsNaN(m.rank) {
		p.Rank = int(m.rank)
	}
	c := &clock{}
	for _, e := range m.ends { // a clock that was set back tells no order
		if n := len(c.us); !math.IsNaN(e.step) && (n == 0 || e.us > c.us[n-1]) {
			c.us, c.steps = append(c.us, e.us), append(c.steps, e.step)
		}
	}
	c.paces(p)
	if m.work > 0 {
		m.load(p, c)
	}
	return c
}

// load tells what a process that serves worked on, and when.
func (m *made) load(p *detect.Process, c *clock) {
	p.Work = wire.WorkKind(uint64(m.work))
	p.Clock = detect.Series{Steps: c.steps}
	for _, us := range c.us {
		p.Clock.Bytes = append(p.Clock.Bytes, (us-c.us[0])/1e6)
	}
	sum := 0.0
	for i, e := range m.ends {
		if n := m.tokens[i]; !math.IsNaN(n) && !math.IsNaN(e.step) {
			sum += n
			p.Tokens.Steps, p.Tokens.Bytes = append(p.Tokens.Steps, e.step), append(p.Tokens.Bytes, sum)
		}
	}
}
