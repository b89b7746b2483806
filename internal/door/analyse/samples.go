package analyse

import (
	"math"

	"github.com/memgauge/memgauge/internal/base/stats"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// What was sampled from outside is read table by table and joined here: of a day's rows a join in the database costs
// more than all else that a verdict does.

// sum is what all processes of the job had at a moment, in bytes; NaN where none was read.
type sum struct{ us, shmem, anon, file float64 }

// sums are in order of time.
type sums struct {
	list []sum
	next int // that was asked for last
}

// add counts a process's sample.
func (s *sums) add(us, shmem, anon, file float64) {
	if n := len(s.list); n == 0 || s.list[n-1].us != us {
		s.list = append(s.list, sum{us, math.NaN(), math.NaN(), math.NaN()})
	}
	at := &s.list[len(s.list)-1]
	at.shmem, at.anon, at.file = plus(at.shmem, shmem), plus(at.anon, anon), plus(at.file, file)
}

// plus adds what was read; NaN was not.
func plus(a, b float64) float64 {
	switch {
	case math.IsNaN(a):
		return b
	case math.IsNaN(b):
		return a
	}
	return a + b
}

// at is the sum of a moment.
func (s *sums) at(us float64) sum {
	s.next = seek(s.list, s.next, us, func(x *sum) float64 { return x.us })
	if s.next == len(s.list) || s.list[s.next].us != us {
		return sum{us, math.NaN(), math.NaN(), math.NaN()}
	}
	return s.list[s.next]
}

// usual is the µs between two moments, the usual ones; NaN where there are too few to tell.
func (s *sums) usual() float64 {
	if len(s.list) < 2 {
		return math.NaN()
	}
	gaps := make([]float64, len(s.list)-1)
	for i := range gaps {
		gaps[i] = s.list[i+1].us - s.list[i].us
	}
	return stats.Median(gaps)
}

// sample is what a process had at a moment, in bytes; NaN where it was not read.
type sample struct {
	us, anon, shared, file, space, dirty float64
	pid                                  int32
}

// history is what was sampled of a process.
type history struct {
	judged bool
	exit   float64 // µs since the epoch
	list   []sample
}

// memory reads what was sampled from outside, on the steps of the training or, where there are none, by time. After its
// "exit" a process is torn down: what Python gives back then says nothing about what it kept.
func (l *loader) memory() error {
	list, err := readings(l, func(s *Sources) *moments[sample] { return &s.samples }, "process_memory",
		"anon, shmem, file, vm_size, private_dirty, pid",
		func(v []float64) sample { return sample{v[0], v[1], v[2], v[3], v[4], v[5], int32(v[6])} },
		func(s sample) float64 { return s.us })
	l.samples.list = make([]sum, 0, len(list))
	by, exits := map[int32]*history{}, l.exits()
	for _, x := range list {
		l.samples.add(x.us, x.shared, x.anon, x.file)
		s := by[x.pid]
		if s == nil {
			s = &history{judged: l.processes[x.pid] != nil, exit: math.Inf(1)}
			if exit, known := exits[x.pid]; known {
				s.exit = exit
			}
			by[x.pid] = s
		}
		if x.us > s.exit {
			continue
		}
		if l.from0 == 0 || x.us < l.from0 {
			l.from0 = x.us
		}
		if s.judged && x.us <= l.until {
			if s.list == nil {
				s.list = make([]sample, 0, len(list)/(len(by)+1))
			}
			s.list = append(s.list, x)
		}
	}
	for pid, s := range by {
		if len(s.list) > 0 {
			l.seen[pid] = s.list[len(s.list)-1].us
			l.sampled(pid, s.list)
		}
	}
	if c := l.clocks[l.trainer]; c != nil {
		gap := 1e6
		if usual := l.samples.usual(); usual < gap {
			gap = usual
		}
		for pid, us := range l.left {
			// gone three samples and two steps before the end
			l.process(pid).Ended = us < c.last()-3*gap-2*c.late()*1e6
		}
	}
	return err
}

// sampled gives a process its samples, which are in order of time.
func (l *loader) sampled(pid int32, list []sample) {
	column := func(of func(x *sample) float64) []float64 {
		out := make([]float64, len(list))
		for i := range list {
			out[i] = of(&list[i])
		}
		return out
	}
	p := l.processes[pid]
	xs, ok := l.stepsOf(pid, column(func(x *sample) float64 { return x.us }), p)
	if !ok {
		return
	}
	series := func(of func(x *sample) float64) detect.Series { return detect.Series{Steps: xs, Bytes: column(of)} }
	p.Shared, p.Mapped = series(func(x *sample) float64 { return x.shared }),
		series(func(x *sample) float64 { return x.file })
	p.Space, p.Unshared = series(func(x *sample) float64 { return x.space }),
		series(func(x *sample) float64 { return x.dirty })
	p.Dirty = series(func(x *sample) float64 { return written(x.dirty, x.anon) })
	if l.clocks[pid] == nil {
		p.Anon = series(func(x *sample) float64 { return x.anon })
	}
}

// written is what a process has written to of files that it has mapped: its dirty pages less the anonymous ones, of
// which some may be shared with a child.
func written(dirty, anon float64) float64 {
	if w := dirty - anon; !(w < 0) {
		return w
	}
	return 0
}
