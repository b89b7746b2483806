package analyse

import (
	"math"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// What is read of a step's end, by its place among a bucket's floors.
const (
	heap = iota
	anon
	private
	blocks
)

// stepEnds are the rows of python.steps: they tell of the host whatever device they show besides.
var stepEnds = stepRows{
	stored: "steps",
	columns: `pid, coalesce(inference, true), ` + workOf + `, step,
 epoch_us(ts), heap_in_use, anon, heap_held, py_blocks, gc_full, rank, tokens`,
	take: func(d *digest, step float64, v []float64) {
		b := d.of(step)
		b.take(heap, step, v[1])
		b.take(anon, step, v[2])
		b.take(private, step, v[2]-v[3])
		b.take(blocks, step, v[4])
		b.ended(at{step, v[0]})
		if v[5] > 0 {
			d.full += v[5]
		}
		if !math.IsNaN(v[6]) {
			d.rank = v[6]
		}
		b.tokens = plus(b.tokens, v[7])
	},
	keep: func(s *Sources) *digests { return &s.steps },
}

// workOf is what a step is: 0 of a training, else a place in wire.WorkKinds. Forwards before an optimizer steps may be
// a training by hand, and go by its rules.
var workOf = `CASE WHEN coalesce(inference, true) THEN 0 ELSE
 coalesce(list_position(['` + strings.Join(wire.WorkKinds[1:], "', '") + `'], kind::VARCHAR), 0) END::DOUBLE`

// steps reads who trains, how long, and floors of what the agent took at step ends.
func (l *loader) steps() error {
	err := l.digest(&stepEnds, func(s *digests) error {
		l.span(s)
		for pid, k := range l.counted {
			d := s.of[k]
			l.clocks[pid] = d.tell(l.process(pid), k)
		}
		return l.hostSteps(s)
	})
	if c := l.clocks[l.trainer]; c != nil && l.o.Until > 0 && len(c.us) > 0 {
		l.until = c.last()
	}
	return err
}

// span finds who trains, and how long. Of each process one kind counts: rows of training where there are any (forwards
// before the first optimizer step count by themselves), of these the one that has come furthest.
func (l *loader) span(s *digests) {
	for _, k := range s.kinds() {
		best, met := l.counted[k.pid]
		if !met || best.inference == k.inference && s.of[k].high > s.of[best].high {
			l.counted[k.pid] = k
		}
		if high := s.of[k].high; high > l.most {
			l.most, l.trainer = high, k.pid
		}
	}
}

// hostSteps gives the readings of the host the step that the process that has made most had ended by then, whatever
// Options.Until says.
func (l *loader) hostSteps(s *digests) error {
	longest := l.trainer
	if l.o.Until > 0 {
		pid, err := l.one("SELECT pid FROM store.steps GROUP BY pid ORDER BY max(step) DESC, pid LIMIT 1")
		if err != nil {
			return err
		}
		longest = int32(pid)
	}
	for _, k := range s.kinds() {
		if k.pid == longest {
			l.hosts.steps(s.of[k].clock())
		}
	}
	return nil
}

// tell gives a process what its steps told, and makes the clock of them.
func (d *digest) tell(p *detect.Process, k kind) *clock {
	p.Heap, p.Anon, p.Private, p.Blocks = d.series(heap), d.series(anon), d.series(private), d.series(blocks)
	p.Full = d.full
	if !math.IsNaN(d.rank) {
		p.Rank = int(d.rank)
	}
	c := d.clock()
	c.paces(p)
	if k.work > 0 {
		d.load(p, k, c)
	}
	return c
}

// load tells what a process that serves worked on, and when.
func (d *digest) load(p *detect.Process, k kind, c *clock) {
	p.Work = wire.WorkKind(uint64(k.work))
	p.Clock = detect.Series{Steps: c.steps}
	for _, us := range c.us {
		p.Clock.Bytes = append(p.Clock.Bytes, (us-c.us[0])/1e6)
	}
	sum := 0.0
	for i := range d.list {
		if b := &d.list[i]; !math.IsNaN(b.tokens) && !math.IsNaN(b.end.step) {
			sum += b.tokens
			p.Tokens.Steps, p.Tokens.Bytes = append(p.Tokens.Steps, b.end.step), append(p.Tokens.Bytes, sum)
		}
	}
}
