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
	at     []int32 // places in the list of all samples
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
	var s *history
	for i := range list {
		x := &list[i]
		l.samples.add(x.us, x.shared, x.anon, x.file)
		if i == 0 || x.pid != list[i-1].pid {
			s = by[x.pid]
		}
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
			if s.at == nil {
				s.at = make([]int32, 0, len(list)/len(by))
			}
			s.at = append(s.at, int32(i))
		}
	}
	for pid, s := range by {
		if n := len(s.at); n > 0 {
			l.seen[pid] = list[s.at[n-1]].us
			l.sampled(pid, list, s.at)
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

// sampled gives a process its samples, which stand at places of a list in order of time: of many the floors of
// stretches of equally many, as of steps.
func (l *loader) sampled(pid int32, list []sample, at []int32) {
	p := l.processes[pid]
	us := make([]float64, len(at))
	for i, place := range at {
		us[i] = list[place].us
	}
	xs, ok := l.stepsOf(pid, us, p)
	if !ok {
		return
	}
	series := func(of func(x *sample) float64) detect.Series { return sampleFloors(xs, list, at, of) }
	p.Shared, p.Mapped = series(func(x *sample) float64 { return x.shared }),
		series(func(x *sample) float64 { return x.file })
	p.Space, p.Unshared = series(func(x *sample) float64 { return x.space }),
		series(func(x *sample) float64 { return x.dirty })
	p.Dirty = series(func(x *sample) float64 { return written(x.dirty, x.anon) })
	if l.clocks[pid] == nil {
		p.Anon = series(func(x *sample) float64 { return x.anon })
	}
}

// sampleFloors are the lowest readings of at most mostBuckets stretches of samples, at the steps xs; NaN was not read.
func sampleFloors(xs []float64, list []sample, at []int32, of func(x *sample) float64) (s detect.Series) {
	each := (len(at) + mostBuckets - 1) / mostBuckets
	s.Steps, s.Bytes = make([]float64, 0, len(at)/each+1), make([]float64, 0, len(at)/each+1)
	for i := 0; i < len(at); i += each {
		least := floor{0, math.Inf(1)}
		for k := i; k < min(i+each, len(at)); k++ {
			if bytes := of(&list[at[k]]); bytes < least.bytes && !math.IsNaN(xs[k]) {
				least = floor{xs[k], bytes}
			}
		}
		if !math.IsInf(least.bytes, 1) {
			s.Steps, s.Bytes = append(s.Steps, least.step), append(s.Bytes, least.bytes)
		}
	}
	return s
}

// written is what a process has written to of files that it has mapped: its dirty pages less the anonymous ones, of
// which some may be shared with a child.
func written(dirty, anon float64) float64 {
	if w := dirty - anon; !(w < 0) {
		return w
	}
	return 0
}
