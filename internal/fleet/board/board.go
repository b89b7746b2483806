package board

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/quota"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Bounds of a board, in bytes. All of it is bounded together, and who has most gives way (package quota): a stranger
// may make up nodes, jobs, ranks and findings. A node that gave way is asked instead, as one that the board has not all
// of.
const (
	most      = 512 << 20
	maxNodes  = 20_000  // as many as a hub knows, which have room for a job with 5 ranks each
	placeCost = 3 << 10 // of a part of a job on a node: the machine's memory by steps
	rankCost  = 4 << 10 // 64 values of each of three grids, and as much again for their places in maps
	ownCost   = 1024    // of a finding, besides its texts
	nodeRanks = 4096    // of a job on a node: as many as a session tells of
	nodeOwn   = 64      // sessions of a job on a node
	maxOwn    = 1 << 10 // findings of a session that are kept: memories of 500 ranks with two devices
	maxText   = 1 << 10 // bytes of a text in one: holders and advice are lines
)

// quiet is how long nothing comes of a job's part on a node until it is forgotten: nodes send every 30 s, and the time
// that a node is away is not the job's end.
const quiet = 15 * time.Minute

// A rank has stopped where its session tells of other ranks' steps for stopTime after its last one: they come together.
// Or where its node tells of itself for silentTime: its tables come in frames of their own, each 90 s later at most,
// unless the node is behind.
const (
	stopTime   = time.Minute
	silentTime = 5 * time.Minute
)

// Board keeps what frames tell of live jobs. Any number may use it at a time.
type Board struct {
	mu      sync.Mutex
	jobs    map[string]map[string]*place // by job and node
	kept    *quota.Quota                 // bytes by node
	origin  func(node string) string
	refused int64
}

// New makes an empty one; origin says where a node is, as package quota has it.
func New(origin func(node string) string) *Board {
	return &Board{jobs: map[string]map[string]*place{}, kept: quota.New(most, maxNodes), origin: origin}
}

// place is a job's part on one node.
type place struct {
	node   string
	in     skew.Input
	ranks  map[int]*rank
	lowest int // rank by whose steps the machine's memory is read
	made   []point
	hosts  []point // readings whose step is not known yet
	own    map[string]*own
	since  int64            // last step of the processes that were replaced, µs; those that began before it don't count
	newest map[string]int64 // step by session, µs
	until  int64            // newest reading of the machine's memory, µs
	seen   time.Time
	cost   int64 // as it is counted in Board.kept
}

// bytes is about the memory that a place takes.
func (p *place) bytes() int64 {
	n := placeCost + rankCost*len(p.ranks) + 16*(len(p.made)+len(p.hosts))
	for _, o := range p.own {
		n += ownCost + o.bytes
	}
	return int64(n)
}

// rank is the process that a rank is now.
type rank struct {
	session string
	pid     int64
	from    int64 // of the first step that came of it, µs
	ts      int64 // of its last step, µs
	step    int64
	held    int64 // bytes at that; 0 where not taken
	whole   bool  // its steps are known from its first one on
}

// Take notes what frames say. Rows may come again and in any order of tables.
func (b *Board) Take(list []frame.Batch, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range list {
		read := reads[list[i].Table]
		if read == nil {
			continue
		}
		p := b.place(list[i].Job, list[i].Node)
		p.seen = now
		read(b, p, &list[i])
		b.count(p)
	}
}

// count counts what a place has by now, and forgets the nodes that have most where all have too much.
func (b *Board) count(p *place) {
	cost := p.bytes()
	b.kept.Set(p.node, b.origin(p.node), b.kept.Has(p.node)+cost-p.cost)
	p.cost = cost
	for _, node := range b.kept.Yield() {
		b.refused++
		for job, places := range b.jobs {
			if delete(places, node); len(places) == 0 {
				delete(b.jobs, job)
			}
		}
	}
}

// reads are the tables that are read.
var reads = map[string]func(*Board, *place, *frame.Batch){
	"python.steps": (*Board).steps, "host.memory": (*Board).hosts, "memgauge.findings": (*Board).findings}

// place finds a job's part on a node, or makes it.
func (b *Board) place(job, node string) *place {
	places := b.jobs[job]
	if p := places[node]; p != nil {
		return p
	}
	if places == nil {
		places = map[string]*place{}
		b.jobs[job] = places
	}
	p := &place{node: node, in: skew.NewInput(), ranks: map[int]*rank{}, own: map[string]*own{}, lowest: -1,
		newest: map[string]int64{}, since: math.MinInt64}
	places[node] = p
	return p
}

// restart forgets what the ranks held: a training that begins anew has other steps, and its launcher has ended all
// processes of the node before.
func (p *place) restart() {
	p.in, p.made, p.hosts, p.lowest = skew.NewInput(), nil, nil, -1
	for _, r := range p.ranks {
		p.since = max(p.since, r.ts)
	}
}

// Verdict is what a board says of a job.
type Verdict struct {
	*Job
	// Whole says that it has all steps of every rank. A hub that was started after the job may not.
	Whole bool
	Nodes []string  // that it has rows of, sorted
	Rows  time.Time // when the last ones came
	Now   []Held    // by node and rank
}

// Held is what a rank held at its last step.
type Held struct {
	Rank int
	Node string
	Step int64
	Held int64 // bytes; 0 where not taken
}

// Judge judges all jobs, by name. Those of which nothing came lately are forgotten. behind are the nodes that say that
// they have rows which they should have sent.
func (b *Board) Judge(now time.Time, behind map[string]bool) (list []Verdict) {
	b.mu.Lock()
	b.forget(now)
	names := slices.Sorted(maps.Keys(b.jobs))
	b.mu.Unlock()
	for _, name := range names {
		if v, ok := b.judge(name, behind); ok {
			list = append(list, v)
		}
	}
	return list
}

func (b *Board) forget(now time.Time) {
	for job, places := range b.jobs {
		maps.DeleteFunc(places, func(_ string, p *place) bool {
			old := now.Sub(p.seen) > quiet
			if old {
				b.kept.Set(p.node, b.origin(p.node), b.kept.Has(p.node)-p.cost)
			}
			return old
		})
		if len(places) == 0 {
			delete(b.jobs, job)
		}
	}
}

// judge is the verdict on one job. Frames wait meanwhile.
func (b *Board) judge(name string, behind map[string]bool) (v Verdict, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	places := b.jobs[name]
	held, told := skew.NewHeld(), []Told{}
	v.Whole = true
	v.Nodes = slices.Sorted(maps.Keys(places))
	for _, node := range v.Nodes {
		p := places[node]
		held.Put(node, p.in)
		for _, n := range slices.Sorted(maps.Keys(p.ranks)) {
			r := p.ranks[n]
			v.Whole = v.Whole && r.whole && r.from > p.since
			v.Now = append(v.Now, Held{n, node, r.step, r.held})
		}
		told = append(told, p.told()...)
		if p.seen.After(v.Rows) {
			v.Rows = p.seen
		}
	}
	if len(told) == 0 {
		return v, false
	}
	compared := held.Judge()
	compared.Findings = slices.DeleteFunc(compared.Findings, func(f skew.Finding) bool {
		return f.Kind == skew.Lagging && f.Excess == 0 && !places[f.Node].stopped(f.Rank, behind[f.Node])
	})
	v.Job = Of(name, told, compared)
	return v, true
}

// stopped says that a rank makes no steps any more, and not that its rows are yet to come.
func (p *place) stopped(n int, behind bool) bool {
	r := p.ranks[n]
	if r == nil {
		return false
	}
	since := func(ts int64) time.Duration { return time.Duration(ts-r.ts) * time.Microsecond }
	return since(p.newest[r.session]) >= stopTime || !behind && since(p.until) >= silentTime
}

// told is what the sessions of a place say. Ranks whose session has not judged them yet are undecided.
func (p *place) told() (list []Told) {
	ranks := map[string][]skew.Unit{}
	for n, r := range p.ranks {
		ranks[r.session] = append(ranks[r.session], skew.Unit{Rank: n, Node: p.node})
		if p.own[r.session] == nil {
			p.own[r.session] = &own{run: string(detect.Undecided)}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.own)) {
		o := p.own[id]
		if len(ranks[id]) == 0 && len(p.ranks) > 0 {
			continue // its processes were replaced
		}
		slices.SortFunc(ranks[id], func(a, b skew.Unit) int { return a.Rank - b.Rank })
		list = append(list, Told{Node: p.node, Session: id, Verdict: detect.Verdict(o.run), Findings: o.list,
			Ranks: ranks[id]})
	}
	return list
}

// Refused counts ranks and sessions beyond the board's bounds, and nodes that gave way.
func (b *Board) Refused() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

// Few is the verdict with so many ranks at most: those that leak or are odd, then the steepest.
func (j *Job) Few(most int) *Job {
	few := *j
	if len(few.Each) > most {
		few.Each = few.worst()[:most]
		slices.SortFunc(few.Each, func(a, b Rank) int { return a.Rank - b.Rank })
	}
	few.Skew.Slopes = few.Skew.Slopes[:min(len(few.Skew.Slopes), most)]
	few.Skew.Findings = few.Skew.Findings[:min(len(few.Skew.Findings), most)]
	return &few
}

// cut bounds a text of a stranger's.
func cut(text []byte) string {
	if len(text) > maxText {
		text = text[:maxText]
	}
	return strings.ToValidUTF8(string(text), "")
}
