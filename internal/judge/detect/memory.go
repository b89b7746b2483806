package detect

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// Kind is which memory.
type Kind string

// The memories that are judged, each by itself.
const (
	Heap     Kind = "host heap"       // what malloc has handed out: the clearest signal there is
	Private  Kind = "host private"    // anonymous memory that is not malloc's: Python's own arenas, maps
	Anon     Kind = "host anonymous"  // all private memory; judged where the heap can't be
	Shared   Kind = "shared memory"   // tmpfs, memfd, System V
	Mapped   Kind = "mapped files"    // file pages together with the address space they take
	Worker   Kind = "worker"          // private memory of a process that makes no steps, such as a DataLoader's
	Device   Kind = "device"          // what the device's allocator has handed out
	Reserved Kind = "device reserved" // what it holds
	Cache    Kind = "device cache"    // what it holds and has not handed out, where it follows the highest step
	Outside  Kind = "device outside"  // what the process has on the device besides
)

// Class is what kind of leak it is.
type Class string

// The classes of CONTRACT's JSON.
const (
	RetainedTensors    Class = "retained_tensors"
	RetainedObjects    Class = "retained_objects"
	AutogradGraph      Class = "autograd_graph"
	GCCycles           Class = "gc_cycles"
	NativeHeap         Class = "native_heap"
	SharedMemory       Class = "shared_memory"
	WorkerGrowth       Class = "worker_growth"
	AllocatorRetention Class = "allocator_retention"
	DeviceCache        Class = "device_cache"
	OutsideAllocator   Class = "outside_allocator"
	Unknown            Class = "unknown"
)

// Process is what is known of one process of the job.
type Process struct {
	PID, Rank int
	Worker    bool // it makes no steps of its own; its series go by the steps of the training
	Command   string
	Ended     bool    // before the last step of the run: what it held is gone
	Gone      bool    // it has ended: what it would meet it will not meet any more
	Killed    bool    // by the kernel, for lack of memory
	Spent     string  // the memory for lack of which it ended: OfHost, a device's name; "" for none, or not known
	Prepares  bool    // it has loaded PyTorch and made no step
	Boosts    string  // the libraries that train boosted trees in it: XGBoost
	Last      float64 // the last step that was told of
	Pace      float64 // seconds a step, of late; 0 unknown
	Fastest   float64 // and the least that it was over a sixteenth of the younger half of the run; 0 unknown
	Slowest   float64 // and the most
	ByTime    bool    // there are no steps anywhere: Steps are seconds, Pace is 1
	Work      string  // what a step is, of wire.WorkKinds; "" and train: a step of a training
	Clock     Series  // of a process that serves: when its steps ended, in seconds
	Tokens    Series  // and the tokens that it had worked on by then; none where nobody told
	Heap, Anon, Private,
	// Blocks: of Python's allocator; Space: the address space
	Blocks, Shared, Mapped, Space Series
	// Dirty: private pages that were written to and are not anonymous. Unshared: those that no other process maps.
	Dirty, Unshared Series
	Unmapped        Series // shared memory of the job that no process maps, told of the one that made most steps
	Devices         []DeviceSeries
	Tensors         []model.TensorGroup // of all its censuses, in order
	Objects         []model.ObjectGroup
	Full            float64          // full garbage collections seen
	Bounds          map[string]Bound // of containers, by holder
	Native          []NativeSeries   // by line, where native memory was sampled
	Unsampled       string           // what is not in them, where samples began late

	trails *trails // of Objects, once they are needed
}

// OfHost is the host's memory in Process.Spent.
const OfHost = "host"

// least is how many steps a growth of a memory must have lasted: fewer where the process ended for lack of it.
func (p Process) least(memory string) float64 {
	if p.Spent == memory {
		return minSpent
	}
	return MinSteps
}

// DeviceSeries are the memories of one process on one device.
type DeviceSeries struct {
	Name                      string // cuda:0
	Allocated, Reserved, Peak Series // Peak: the highest Allocated since the program last reset it
	Cached                    Series // Reserved less Allocated
	Outside                   Series // what the driver counts for the process beyond Reserved
	Limit                     Limit
}

// Limit is what a memory runs into first.
type Limit struct {
	Name     string             // "cgroup 16 GiB", "host 64 GiB", "device 80 GiB"
	Bytes    float64            // 0: unknown
	Used     float64            // of them at the end, without what can be given back at once
	Readings []forecast.Reading // of what is used, until then; none: Used is all that is known
	// s from the last of them to the end of the run; negative where the last step is the older
	Lag float64
}

// Input is all that a verdict goes by.
type Input struct {
	Processes []Process
	Host      Limit
	Job       forecast.Job // for forecasts; whether its memory is pressed is up to the limit
	Steps     float64      // of the process that made most
	Work      string       // what a step of that process is
	Over      bool         // nothing more will come: what is not told now never will be
	Seconds   float64      // watched, where there are no steps; else 0
	Warnings  []string

	growth map[string]fillRate // by all leaks together, by device ("" for the host)
}

// Finding is the judgement of one memory of one process. All numbers are finite; 0 is unknown in those on the limit.
type Finding struct {
	Growth
	Class    Class
	Memory   Kind
	Device   string
	PID      int
	Rank     int
	Worker   bool
	Site     string
	Holder   string
	Lines    int    // that Site was chosen among, where nothing says which of them it is; else 0
	Held     string // "list, 1,204 items, +1 per step"
	Evidence []string
	kind     string  // of holder: list, dict, cache, hooks, tensors, parameter …
	views    bool    // it holds tensors that are parts of larger storages
	grows    bool    // containers grow, though none explains it
	Last     float64 // step of the process: what was read until End says nothing of the steps since
	Doubt    float64 // that the growth will end by itself
	Advice   []string
	Seconds  float64 // to Limit
	SecondsLow,
	SecondsHigh float64 // 0: the upper end can't be seen
	AtStep float64
	Limit  string
	Over   bool    // the process has ended: Seconds are from its end, and nothing more decides
	Met    bool    // the process was killed at Limit: AtStep is the last
	PerSec float64 // bytes/s, at the late pace
	ByTime bool    // rates are by second, Start, End and AtStep seconds
	Work   string  // what a step is, as in Process
}

// Report is the judgement of a run.
type Report struct {
	Verdict    Verdict
	Class      Class
	Confidence float64
	Steps      float64
	Seconds    float64 // watched, where there are no steps; else 0
	Work       string  // what a step of the process that made most is
	Needs      float64 // of Lacks
	Lacks      string  // the unit of Needs: step, second, request …
	Missing    string  // what an undecided run lacks
	Over       bool    // the run has ended: Needs is what it was too short by
	Findings   []Finding
	Warnings   []string
}

// Run judges a run. Processes may come in any order.
func Run(in Input) Report {
	r := Report{Verdict: Healthy, Steps: in.Steps, Seconds: in.Seconds, Work: in.Work, Over: in.Over,
		Warnings: in.Warnings}
	var judged []judgement
	for _, p := range in.Processes {
		judged = append(judged, judgement{process: p, findings: judgeProcess(p, in)})
	}
	generations(judged)
	r.Findings = foretell(judged, in)
	arrange(r.Findings)
	r.Warnings = append(slices.Clone(r.Warnings), disagreements(r.Findings)...)
	r.sum()
	return r
}

// disagreements says which memories leak on some ranks only. Ranks run the same program: one that differs has a branch
// of its own (rank 0 logs, saves, evaluates), and the leak is there.
func disagreements(fs []Finding) (warnings []string) {
	type memory struct {
		kind   Kind
		device bool // each rank has one of its own
	}
	leaking, sound := map[memory][]int{}, map[memory][]int{}
	for _, f := range fs {
		m := memory{f.Memory, f.Device != ""}
		switch {
		case f.Rank < 0 || f.Worker:
		case f.Verdict == Leak:
			leaking[m] = append(leaking[m], f.Rank)
		case f.Verdict == Healthy:
			sound[m] = append(sound[m], f.Rank)
		}
	}
	for m, ranks := range leaking {
		if others := sound[m]; len(others) > 0 {
			warnings = append(warnings, fmt.Sprintf("ranks disagree: %s leaks on %s, not on %s: look at what only %s",
				m.kind, rankList(ranks), rankList(others),
				map[bool]string{true: "that rank does", false: "those ranks do"}[len(ranks) == 1]))
		}
	}
	slices.Sort(warnings)
	return warnings
}

// rankList is "rank 3" or "ranks 0, 1, 2".
func rankList(ranks []int) string {
	ranks = slices.Clone(ranks)
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	const most = 8
	var words []string
	for _, r := range ranks[:min(len(ranks), most)] {
		words = append(words, fmt.Sprint(r))
	}
	text := strings.Join(words, ", ")
	if more := len(ranks) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(ranks) == 1 {
		return "rank " + text
	}
	return "ranks " + text
}

// sum makes one verdict of the findings: a leak anywhere is one; what can't be told of a training process leaves the
// run undecided.
func (r *Report) sum() {
	trainers := 0
	for _, f := range r.Findings {
		switch {
		case f.Verdict == Leak && r.Verdict != Leak:
			r.Verdict, r.Class = Leak, f.Class
			r.Confidence = min((1-math.Min(0.5, 2000*f.P))*(1-f.Doubt), sure) // after all the looks that there were
		case f.Verdict == Undecided && r.Verdict == Healthy && f.decides():
			r.Verdict, r.Needs, r.Lacks = Undecided, f.Needs, f.Unit()
			r.Missing = f.Reason
		}
		if f.decides() {
			trainers++
		}
	}
	if r.Verdict == Undecided {
		for _, f := range r.Findings {
			if f.Verdict == Undecided && f.decides() && f.Unit() == r.Lacks {
				r.Needs = max(r.Needs, f.Needs)
			}
		}
	}
	if trainers == 0 && r.Verdict == Healthy {
		r.Verdict, r.Missing = Undecided, "no memory of a training process was recorded"
	}
	if r.Verdict == Healthy {
		r.Confidence = 0.95 // of the limits that the findings name
	}
}

// sure is the highest confidence: the noise may be of a kind that nobody thought of.
const sure = 0.99

// decides says whether the run hangs on this finding: the memory of a training process, or any whose rise is plain.
func (f Finding) decides() bool {
	if f.Memory == Worker || f.Memory == Shared || f.Memory == Mapped || f.Memory == Private || f.Memory == Reserved ||
		f.Memory == Cache || f.Memory == Outside {
		return f.Verdict == Undecided && f.Total > 0
	}
	return true
}

func arrange(fs []Finding) {
	order.Stable(fs, func(a, b Finding) int { return Compare(a.key(), b.key()) })
}

// key has what the order of findings goes by.
func (f Finding) key() model.Finding {
	return model.Finding{Verdict: string(f.Verdict), Rate: model.MB(f.Rate), Rank: model.Rank(f.Rank),
		PID: int32(f.PID), Device: model.Text(f.Device), Memory: string(f.Memory)}
}

// judgeProcess judges each memory of a process by itself, and then which of them say the same.
func judgeProcess(p Process, in Input) (out []Finding) {
	add := func(k Kind, device string, g Growth) {
		out = append(out, Finding{Growth: g, Memory: k, Device: device, PID: p.PID, Rank: p.Rank, Worker: p.Worker,
			ByTime: p.ByTime, Work: p.Work, Over: p.Gone})
	}
	switch {
	case p.Worker:
		if g := p.worker(); g.N > 0 {
			add(Worker, "", p.ended(g))
		}
	case p.ByTime:
		if g := p.judge(p.Anon); g.N > 0 && !p.Ended { // a part of the run that has ended gave back what it had
			add(Anon, "", g)
		}
	default:
		k, g, note := p.host()
		if g.N > 0 {
			add(k, "", g)
			if note != "" {
				out[len(out)-1].Evidence = append(out[len(out)-1].Evidence, note)
			}
		}
		if k == Heap {
			if g := p.private(); g.Verdict != Healthy && g.Total > 0 {
				add(Private, "", g)
			}
		}
	}
	if g := p.ended(p.judge(p.Shared)); g.Verdict != Healthy && g.Total > 0 {
		add(Shared, "", g)
	}
	if g := p.judge(p.Unmapped); g.Verdict != Healthy && g.Total > 0 {
		add(Shared, "", g)
		out[len(out)-1].Evidence = []string{
			"it is charged to the job, and no process maps it: descriptors, or files in /dev/shm, keep it"}
	}
	if g := p.mapped(); g.Verdict != Healthy && g.Total > 0 {
		add(Mapped, "", p.ended(g))
	}
	for _, d := range p.Devices {
		out = append(out, p.device(d)...)
	}
	if len(out) == 0 {
		return out
	}
	accounts := p.accounts()
	p.trails = p.follow()
	for i := range out {
		out[i].Last = max(p.Last, p.Steps())
		p.explain(&out[i], accounts, in)
	}
	return out
}

// ended takes a leak back that went with its process: memory of a worker that is started anew each epoch is given back
// each time.
func (p Process) ended(g Growth) Growth {
	if p.Ended && g.Verdict != Healthy {
		g.because(WithProcess)
	}
	return g
}

// device judges what the allocator has handed out, what it keeps besides, and what lies outside of it.
func (p Process) device(d DeviceSeries) (out []Finding) {
	byTime := p.ByTime
	add := func(k Kind, c Class, g Growth) {
		out = append(out, Finding{Growth: g, Class: c, Memory: k, Device: d.Name, PID: p.PID, Rank: p.Rank,
			ByTime: byTime, Work: p.Work, Over: p.Gone})
	}
	p.ByTime = false // devices go by steps, or by the second as if it were one
	allocated := p.judgeFrom(d.Allocated, p.least(d.Name))
	if allocated.N > 0 {
		add(Device, "", allocated)
	}
	if cached := p.judge(d.Cached); cached.Verdict == Leak {
		k, c, why := Reserved, AllocatorRetention, Fragments
		if peak := p.judge(d.Peak); peak.Verdict == Leak && peak.Rate-grown(allocated) > cached.Rate/2 {
			k, c, why = Cache, DeviceCache, PeakCreeps
		}
		cached.because(why)
		add(k, c, cached)
	}
	if outside := p.judgeFrom(d.Outside, p.least(d.Name)); outside.Verdict == Leak {
		add(Outside, OutsideAllocator, outside)
	}
	return out
}

// grown is the rate of what leaks; 0 of what doesn't.
func grown(g Growth) float64 {
	if g.Verdict != Leak {
		return 0
	}
	return g.Rate
}
