package tui

import (
	"cmp"
	"maps"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	rows "github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// recording is what has been read of a session so far. It is a picture of all its time, so that the screen can show any
// moment of it. It belongs to the goroutine that updates the screen.
type recording struct {
	about  api.About
	end    api.End
	bucket int64 // µs between two readings of what was read first; newer ones are as they were stored

	procs   map[int]*process
	cgroups map[string]*track[cgroup]
	host    *track[host]
	gpus    map[int]*gpu
	events  []event
	judged  []judgement // the oldest first

	first, last int64 // µs: of all readings
	held        int64 // µs: lastHeld, once the session is over
}

// process is a process of the job.
type process struct {
	pid, ppid, rank   int
	role, command     string
	started, lastSeen int64 // µs
	ended             bool

	memory  *track[memory]
	steps   *track[floor]
	devices map[string]*track[deviceFloor]
	gpu     *track[int64] // bytes of all GPUs, as their drivers tell
}

// memory is a reading of a process; bytes, -1 unknown.
type memory struct {
	// classes of resident memory that add up to it, but for swap: questions.Anonymous and its neighbours
	anon, file, shmem, swap, heap, free, rss int64
	cpu                                      int64 // µs since it began
	at                                       int64 // µs
}

// floor is what was held when a step had ended.
type floor struct {
	step     int64
	anon     int64
	heap     int64
	duration int64 // µs of one step, -1 unknown
}

// deviceFloor is floor of a device's allocator.
type deviceFloor struct{ allocated, reserved, peak int64 }

type cgroup struct{ current, limit, anon, file, shmem, kernel, idle int64 }

type host struct{ total, available, swapTotal, swapFree int64 }

type gpu struct {
	name string
	at   *track[gpuReading]
}

type gpuReading struct{ used, total, busy, celsius, watts int64 }

type event struct {
	at         int64
	pid        int
	name, text string
}

// judgement is one judging of all memories.
type judgement struct {
	at       int64
	number   int64
	verdict  string
	findings []rows.Finding
}

func newRecording(about api.About) *recording {
	return &recording{about: about, procs: map[int]*process{}, cgroups: map[string]*track[cgroup]{},
		host: newTrack(fuller), gpus: map[int]*gpu{}, end: api.End{Live: about.Live}}
}

func larger(a, b memory) memory {
	if b.rss >= a.rss {
		return b
	}
	return a
}

func fuller(a, b host) host {
	if b.available <= a.available {
		return b
	}
	return a
}

func more(a, b cgroup) cgroup {
	if b.current >= a.current {
		return b
	}
	return a
}

// lower keeps the floor of two; the step is the later one's.
func lower(a, b floor) floor {
	return floor{step: b.step, anon: least(a.anon, b.anon), heap: least(a.heap, b.heap),
		duration: max(a.duration, b.duration)}
}

func lowerDevice(a, b deviceFloor) deviceFloor {
	return deviceFloor{allocated: least(a.allocated, b.allocated), reserved: max(a.reserved, b.reserved),
		peak: max(a.peak, b.peak)}
}

// least is the lower of two amounts of which one may be unknown.
func least(a, b int64) int64 {
	if a < 0 || b < 0 {
		return max(a, b)
	}
	return min(a, b)
}

func (r *recording) process(pid int) *process {
	p := r.procs[pid]
	if p == nil {
		p = &process{pid: pid, rank: -1, memory: newTrack(larger), steps: newTrack(lower),
			devices: map[string]*track[deviceFloor]{}, gpu: newTrack(func(a, b int64) int64 { return max(a, b) })}
		r.procs[pid] = p
	}
	return p
}

// take adds what was read. What is there already is skipped: readings overlap, so that none is missed.
func (r *recording) take(b batch) {
	r.bucket = max(r.bucket, b.bucket)
	for _, row := range b.rows {
		r.takeRow(row)
		if r.first == 0 || row.T < r.first {
			r.first = row.T
		}
		r.last = max(r.last, row.T)
	}
	for _, t := range b.tree {
		p := r.process(t.PID)
		p.ppid, p.rank, p.role, p.command = t.Parent, -1, t.Role, t.Command
		if t.Rank != nil {
			p.rank = *t.Rank
		}
		p.started, p.lastSeen, p.ended = t.Started, t.LastSeen, t.Ended
	}
	r.takeFindings(b.findings)
	if r.end = b.end; !r.end.Live {
		r.held = r.lastHeld()
	}
}

func (r *recording) takeRow(x questions.Row) {
	switch x.K {
	case "m":
		r.process(int(x.ID)).memory.add(x.T, memory{anon: x.A, file: x.B, shmem: x.C, swap: x.D, heap: x.E, free: x.H,
			rss: x.F, cpu: x.G, at: x.T})
	case "s":
		r.process(int(x.ID)).steps.add(x.T, floor{step: x.A, anon: x.B, heap: x.C, duration: x.D})
	case "d":
		p := r.process(int(x.ID))
		if p.devices[x.Name] == nil {
			p.devices[x.Name] = newTrack(lowerDevice)
		}
		p.devices[x.Name].add(x.T, deviceFloor{allocated: x.A, reserved: x.B, peak: x.C})
	case "p":
		r.process(int(x.ID)).gpu.add(x.T, x.A)
	case "c":
		if r.cgroups[x.Name] == nil {
			r.cgroups[x.Name] = newTrack(more)
		}
		r.cgroups[x.Name].add(x.T, cgroup{x.A, x.B, x.C, x.D, x.E, x.F, x.G})
	case "h":
		r.host.add(x.T, host{x.A, x.B, x.C, x.D})
	case "g":
		r.takeGPU(x)
	case "e":
		r.takeEvent(event{x.T, int(x.ID), x.Name, x.Text})
	}
}

func (r *recording) takeGPU(x questions.Row) {
	g := r.gpus[int(x.ID)]
	if g == nil {
		g = &gpu{at: newTrack(func(a, b gpuReading) gpuReading {
			if b.used >= a.used {
				return b
			}
			return a
		})}
		r.gpus[int(x.ID)] = g
	}
	g.name = x.Name
	g.at.add(x.T, gpuReading{x.A, x.B, x.C, x.D, x.E})
}

// maxEvents are kept, the newest: a screen shows some twenty.
const maxEvents = 2000

func (r *recording) takeEvent(e event) {
	i, found := slices.BinarySearchFunc(r.events, e, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.pid, b.pid), cmp.Compare(a.name, b.name))
	})
	if found {
		return
	}
	r.events = slices.Insert(r.events, i, e)
	if len(r.events) > maxEvents {
		r.events = slices.Delete(r.events, 0, len(r.events)-maxEvents)
	}
}

// maxJudged judgements are kept, the newest; the collector judges less and less often as a run grows.
const maxJudged = 500

func (r *recording) takeFindings(rows []questions.Finding) {
	for _, f := range rows {
		n := len(r.judged)
		if n == 0 || r.judged[n-1].number < f.Number {
			r.judged = append(r.judged, judgement{at: f.Micros, number: f.Number, verdict: f.RunVerdict})
			n++
		}
		if j := &r.judged[n-1]; j.number == f.Number {
			j.findings = append(j.findings, f.Told())
		}
	}
	for i := len(r.judged) - 1; i >= 0 && len(rows) > 0 && r.judged[i].number >= rows[0].Number; i-- {
		order.Stable(r.judged[i].findings, detect.Compare)
	}
	if n := len(r.judged) - maxJudged; n > 0 {
		r.judged = slices.Delete(r.judged, 0, n)
	}
}

// verdictAt is the newest judgement at a time, nil before the first.
func (r *recording) verdictAt(t int64) *judgement {
	for i := len(r.judged) - 1; i >= 0; i-- {
		if r.judged[i].at <= t {
			return &r.judged[i]
		}
	}
	return nil
}

// stale is how old a reading may be and still count, in µs: old samples are thinned to one in 10 s.
func (r *recording) stale() int64 { return max(15e6, 2*r.bucket) }

// untilGone is how long an ended process is shown after it was last seen: to the next sample, so that the end of a
// session shows what it held.
const untilGone = 2e6 // µs

func (p *process) gone(t int64) bool { return p.ended && t > p.lastSeen+untilGone }

func (r *recording) all() []*process {
	list := slices.Collect(maps.Values(r.procs))
	slices.SortFunc(list, func(a, b *process) int { return a.pid - b.pid })
	return list
}

// lastHeld is when the process that held most was last read, of those that made steps if any did; the end where none
// was read.
func (r *recording) lastHeld() int64 {
	var found *process
	most := func(p *process) int64 {
		peak := int64(0)
		for _, m := range p.memory.v {
			peak = max(peak, m.rss)
		}
		return peak
	}
	for _, p := range r.all() {
		steps, before := len(p.steps.at) > 0, found != nil && len(found.steps.at) > 0
		if len(p.memory.at) > 0 && (found == nil || steps && !before || steps == before && most(p) > most(found)) {
			found = p
		}
	}
	if found == nil {
		return r.last
	}
	return found.memory.at[len(found.memory.at)-1]
}

// alive lists the processes that had memory at a time.
func (r *recording) alive(t int64) (list []*process) {
	for _, p := range r.procs {
		if p.gone(t) {
			continue
		}
		if _, ok := p.memory.when(t, r.stale()); ok {
			list = append(list, p)
		}
	}
	order.By(list, func(a, b *process) int { return cmp.Compare(a.pid, b.pid) })
	return list
}

// cpuShare is the share of a core that a process took lately, -1 unknown.
func (p *process) cpuShare(t int64) float64 {
	i := p.memory.upTo(t) - 1
	if i < 1 {
		return -1
	}
	a, b := p.memory.v[i-1], p.memory.v[i]
	if b.at <= a.at || b.cpu < a.cpu || a.cpu < 0 {
		return -1
	}
	return float64(b.cpu-a.cpu) / float64(b.at-a.at)
}

// stepAt is the step that the job had done at a time, and how long one took, in µs.
func (r *recording) stepAt(t int64) (step, duration int64) {
	duration = -1
	for _, p := range r.procs {
		if i := p.steps.upTo(t) - 1; i >= 0 && p.steps.v[i].step > step {
			step, duration = p.steps.v[i].step, p.steps.v[i].duration
		}
	}
	return step, duration
}

// foremost is the process to look at: that whose memory leaks, by the newest judgement at a time, else the one that has
// made the most steps until then; nil where none has.
func (r *recording) foremost(t int64) (best *process) {
	if j := r.verdictAt(t); j != nil {
		for _, f := range j.findings {
			if p := r.procs[int(f.PID)]; p != nil && f.Verdict == "leak" && p.steps.upTo(t) > 0 {
				return p
			}
		}
	}
	most := int64(0)
	for _, p := range r.procs {
		i := p.steps.upTo(t) - 1
		if i < 0 {
			continue
		}
		if s := p.steps.v[i].step; best == nil || s > most || s == most && p.pid < best.pid {
			best, most = p, s
		}
	}
	return best
}
