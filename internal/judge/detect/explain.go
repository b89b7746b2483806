package detect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// explain fills in class, holder, line, limit and advice of a finding.
func (p Process) explain(f *Finding, accounts []account, in Input) {
	p.testify(f, accounts)
	p.against(f, accounts, in.binding(f, p))
	if f.Verdict == Healthy {
		return
	}
	f.Evidence = append([]string{f.account()}, f.Evidence...)
	if f.Verdict == Leak {
		p.attribute(f, accounts)
		p.bounded(f, accounts, in.binding(f, p))
		p.nativeSite(f)
		p.grownModel(f, accounts)
		p.mayFill(f, accounts, in.Over)
	}
	if f.Class == "" {
		f.Class = Unknown
	}
}

// account says what the series shows.
func (f Finding) account() string {
	account := fmt.Sprintf("%s grew by %s from %s %.0f to %.0f; %d readings, %d floors",
		f.Memory, units.Bytes(math.Round(max(0, f.Total))), f.Unit(), f.Start, f.End, f.N, f.Floors)
	if f.Load != "" {
		account += "; at " + f.Load
	}
	if f.Verdict != Leak && f.P == 0 { // it wasn't computed
		return account
	}
	return account + fmt.Sprintf("; chance of that without a trend below %.0e", f.P)
}

// suspect is something that a census saw growing.
type suspect struct {
	holder, site, what string
	kind               string // list, dict, cache, hooks, tensors, parameter …
	class              Class
	bytes              float64 // a step; NaN unknown
	items              float64 // a step
	length             float64 // items

	container   bool
	few         bool // tensors, fewer than pile up
	views       bool // tensors that are parts of larger storages, which they keep
	unseen      bool // some of it belongs to libraries, whose bytes a census can't see
	late        bool // only the last census saw it: how fast it grows isn't known
	uncollected bool // garbage in cycles while the collector is off

	bunch    bool // several that only C reaches, without a name of their own: censuses see more of them or fewer
	foreign  bool // a running function of Python's library or PyTorch holds it
	fleeting bool // a variable of the step that was going on: only the last of several censuses saw it
	shrank   bool // it was smaller at a later census
	once     bool // one census alone saw it: all of it is taken for growth
	stays    bool // it is that, and was counted later: it has as many items as ever
}

// attribute finds what holds the memory: what grew between the first census since the growth began and the last one,
// and comes nearest to the rate.
func (p Process) attribute(f *Finding, accounts []account) {
	f.Class = classOf(f.Memory)
	list := p.suspects(f, accounts)
	if len(list) == 0 {
		p.unexplained(f, accounts)
		return
	}
	best := list[0]
	if i := slices.IndexFunc(list, func(s suspect) bool {
		return (s.uncollected || !math.IsNaN(s.bytes)) && boundOf(s.holder, accounts) == nil
	}); i > 0 && boundOf(best.holder, accounts) != nil { // what has no end goes before what has one
		best = list[i]
	}
	f.Holder, f.Site, f.Held, f.Class, f.kind = best.holder, best.site, best.what, best.class, best.kind
	f.views = best.views
	p.choice(f)
	switch {
	case f.Worker:
		f.Class = WorkerGrowth
	case f.Memory == Outside:
		f.Class = OutsideAllocator
	}
	if !math.IsNaN(best.bytes) && best.bytes > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("the censuses saw %s there grow by %s a %s, %.0f %% of the rate",
			best.what, units.Bytes(math.Round(best.bytes)), f.Unit(), 100*best.bytes/f.Rate))
	}
}

// nativeCalls names where the program calls native libraries, by the last census: one of these makes what nothing in
// Python leads to.
func (p Process) nativeCalls(f *Finding) {
	var last int64
	for _, o := range p.Objects {
		last = max(last, o.Census)
	}
	for _, o := range p.Objects {
		if o.Evidence != "native" || o.Type != "call" || o.Census != last {
			continue
		}
		if f.Site == "" {
			f.Site, f.Holder, f.Held = o.Site, o.Holder, cmp.Or(o.Detail, "calls native code")
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("native code is called in %s, %s: %s", o.Holder, o.Site, o.Detail))
	}
}

func classOf(k Kind) Class {
	switch k {
	case Worker:
		return WorkerGrowth
	case Shared:
		return SharedMemory
	case Mapped, Outside:
		return OutsideAllocator
	case Reserved:
		return AllocatorRetention
	case Private:
		return RetainedObjects
	}
	return Unknown
}

// suspects lists what grew, the likeliest first.
func (p Process) suspects(f *Finding, accounts []account) []suspect {
	tensors, objects := p.tensorSuspects(f), p.counted(f, p.objectSuspects(f), accounts)
	if f.Memory == Outside { // the memory of tensors is the allocator's
		tensors = nil
	}
	for i := range objects {
		objects[i].hold(tensors)
	}
	list := append(tensors, objects...)
	graphs := append(p.earlierGraphs(), objects...)
	for i := range list {
		list[i].graphs(graphs, f.Rate)
		list[i].stays = list[i].once && slices.ContainsFunc(accounts, func(a account) bool {
			return a.holder == list[i].holder && a.stays()
		})
	}
	own := slices.ContainsFunc(list, func(s suspect) bool {
		return s.site != "" && !IsForeign(s.site) &&
			!IsInstalled(s.site)
	})
	list = slices.DeleteFunc(list, func(s suspect) bool {
		s.foreign = s.foreign || own && IsInstalled(s.site) // else the program itself is an installed package
		return !s.holds(f.Rate, f.End-f.Start)
	})
	order.Stable(list, func(a, b suspect) int { return cmp.Compare(b.weight(f.Rate), a.weight(f.Rate)) })
	return list
}

// hold says of a container that it holds tensors, and which lines make them.
func (s *suspect) hold(tensors []suspect) {
	if !s.container || s.holder == "" {
		return
	}
	sum := 0.0
	for _, t := range tensors {
		if below(t.holder, s.holder) {
			sum += math.Max(0, t.bytes)
			s.site = cmp.Or(s.site, t.site)
			s.views, s.once = s.views || t.views, s.once || t.once
		}
	}
	if sum > 0 && (math.IsNaN(s.bytes) || sum > s.bytes/2) {
		s.bytes = math.Max(sum, orNone(s.bytes))
		if s.class == RetainedObjects {
			s.class = RetainedTensors
		}
	}
}

// graphs says of what keeps ever more tensors that they hold graphs: then those are what it keeps, and detaching is the
// remedy. Of what a graph keeps no census sees the bytes: those of the tensors explain no more than a list of numbers.
func (s *suspect) graphs(objects []suspect, rate float64) {
	if s.class != RetainedTensors && s.class != RetainedObjects || s.items <= 0 {
		return
	}
	for _, o := range objects {
		if o.class == AutogradGraph && o.items > 0 && below(o.holder, s.holder) && s.holder != "" {
			s.class = AutogradGraph
			s.site = cmp.Or(s.site, o.site)
			if s.bytes < explains*rate {
				s.bytes = math.NaN()
			}
		}
	}
}

// earlierGraphs are those of many tensors that the last census had no time to measure: it has none at all, but one
// before has.
func (p Process) earlierGraphs() (list []suspect) {
	last := int64(0)
	for _, o := range p.Objects {
		last = max(last, o.Census)
	}
	for _, o := range p.Objects {
		switch {
		case o.Evidence != "graph":
		case o.Census == last:
			return nil
		case o.Count >= moreItems:
			list = append(list, suspect{holder: HolderOf(o.Holder), site: o.Site, class: AutogradGraph,
				items: float64(o.Count)})
		}
	}
	return list
}

func orNone(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}

// weight is the share of the rate that a suspect explains. What's size isn't known comes after what explains a fifth;
// garbage that nobody collects after what explains half: it can only grow, whatever holds the tensors of the step that
// is going on.
func (s suspect) weight(rate float64) float64 {
	switch {
	case s.uncollected:
		return 0.6
	case math.IsNaN(s.bytes):
		w := 0.2 + math.Min(s.length, 1000)/20_000 // many of them rather than few
		if s.late {
			w /= 3
		}
		return w
	}
	w := math.Min(s.bytes/rate, rate/s.bytes)
	if strings.HasPrefix(s.holder, nameless) { // a name says more, and its list may be among these
		w /= 8
	}
	if s.late {
		w /= 3
	}
	if s.stays { // data that were loaded before the training
		w /= 20
	}
	if s.items < 0.01 || s.few { // one thing that is large, not many that pile up
		w /= 4
	}
	if s.container {
		w *= 1.3
	}
	if s.class == AutogradGraph || s.class == GCCycles { // they say why the tensors are kept, which the tensors don't
		w *= 1.5
	}
	return w
}

// rolesKind is the kind of holder that tensors of a role are kept by.
var rolesKind = map[string]string{"parameter": "parameter", "buffer": "buffer", "optimizer": "optimizer"}

type seen struct {
	bytes, count float64
	shown        float64 // bytes of what the tensors show, where the storages may be larger
	site, role   string
}

// tensorSuspects compares the bytes of tensors by holder between censuses.
func (p Process) tensorSuspects(f *Finding) []suspect {
	byCensus, steps, more := map[int64]map[string]seen{}, map[int64]float64{}, p.trainsMore()
	for _, t := range p.Tensors {
		if (f.Device != "") != strings.HasPrefix(t.Device, "cuda") || t.Step == model.Null ||
			(t.Role == "optimizer" || t.Role == "parameter") && !more { // they are as old as the training
			continue
		}
		m := byCensus[t.Census]
		if m == nil {
			m = map[string]seen{}
			byCensus[t.Census], steps[t.Census] = m, float64(t.Step)
		}
		s := m[HolderOf(t.Holder)]
		s.bytes, s.count = s.bytes+tensorBytes(t), s.count+float64(t.Count)
		s.shown += shown(t)
		s.site, s.role = cmp.Or(s.site, t.Site), cmp.Or(rolesKind[t.Role], "tensors")
		m[HolderOf(t.Holder)] = s
	}
	first, last, ok := span(steps, f.Start)
	if !ok {
		return nil
	}
	sizes, seenAt := map[string]history{}, sightings{steps: steps}
	for _, t := range p.Tensors {
		holder := HolderOf(t.Holder)
		sizes[holder] = sizes[holder].with(t.Census, float64(t.Bytes))
		seenAt.add(t.Holder, t.Census)
	}
	for _, o := range p.Objects {
		if o.Evidence != Count {
			seenAt.add(o.Holder, o.Census)
		}
		if o.Evidence == "container" && o.Bytes == model.Null {
			seenAt.notAll(HolderOf(o.Holder), o.Census)
		}
	}
	var list []suspect
	for holder := range sizes {
		from, shrank := sizes[holder].rises(first)
		span := seenAt.of(holder, sizes[holder], from, last, f.Start)
		now, ok := byCensus[span.to][holder]
		if !ok {
			continue
		}
		before := seen{}
		if span.from != span.to {
			before = byCensus[span.from][holder]
		}
		// of a tensor or two that one census alone saw nobody knows whether they grow, either
		s := suspect{holder: holder, site: now.site, class: RetainedTensors, kind: now.role,
			late:  span.late || len(sizes[holder]) == 1 && now.count < moreItems,
			bytes: (now.bytes - before.bytes) / span.over, items: (now.count - before.count) / span.over}
		s.foreign, s.shrank, s.few = IsForeign(now.site), shrank, now.count < moreItems
		s.once = span.from == span.to
		s.views = now.shown > 0 && now.bytes-besideData*now.count > viewed*now.shown
		s.fleeting = span.fleeting(sizes[holder], first, last) && (local(holder) || newcomer(holder, now.count))
		s.what = fmt.Sprintf("%s tensors, %+.3g per %s", units.Count(int64(now.count)), s.items, f.Unit())
		list = append(list, s)
	}
	order.By(list, func(a, b suspect) int { return cmp.Compare(a.holder, b.holder) })
	return list
}

// HolderOf takes the place in a container off a holder's path: what grows is the container.
func HolderOf(path string) string {
	for {
		trimmed := strings.TrimSuffix(path, "[*]")
		if trimmed == path {
			return path
		}
		path = trimmed
	}
}

// span is the first census since the growth began (else the one before) and the last one.
func span(steps map[int64]float64, start float64) (first, last int64, ok bool) {
	ids := slices.Collect(func(yield func(int64) bool) {
		for id := range steps {
			if !yield(id) {
				return
			}
		}
	})
	if len(ids) == 0 {
		return 0, 0, false
	}
	slices.Sort(ids)
	first, last = ids[0], ids[len(ids)-1]
	for _, id := range ids[:len(ids)-1] {
		if steps[id] >= start {
			return id, last, true
		}
		first = id
	}
	return first, last, true
}

// objectSuspects reads the other evidence: containers, graphs, cycles, tracebacks, hooks, native memory.
func (p Process) objectSuspects(f *Finding) (list []suspect) {
	trails := p.trails
	if trails == nil {
		trails = p.follow()
	}
	first, last, ok := span(trails.seen.steps, f.Start)
	if !ok {
		return nil
	}
	more, states := p.trainsMore(), p.states()
	for _, t := range trails.list {
		from, shrank := t.sizes.rises(first)
		span := trails.seen.of(t.holder, t.sizes, from, last, f.Start)
		o, before := t.at(span.to), &model.ObjectGroup{}
		if o == nil {
			continue
		}
		if span.from != span.to {
			before = cmp.Or(t.at(span.from), before)
		}
		s, ok := suspectOf(*o, *before, span.over, f.Unit())
		if !ok || s.container && !more && states[s.holder] {
			continue
		}
		s.late, s.foreign, s.shrank, s.once = span.late, IsForeign(o.Site), shrank, span.from == span.to
		// the census says little of what came since; a graph as long as the run so far is kept, whenever it was seen
		stale := o.Evidence != "graph" && f.End-trails.seen.steps[span.to] > lateCensus*(f.End-f.Start)
		// a search through all objects found several at once, and nobody knows since when they are there
		s.fleeting = s.bunch && len(t.sizes) < 2 ||
			span.fleeting(t.sizes, first, last) && (local(o.Holder) || newcomer(s.holder, sizeOf(*o))) ||
			strings.HasPrefix(o.Holder, loggers) && len(t.sizes) < leastCensuses || math.IsNaN(s.bytes) && stale
		if s.unseen && s.bytes < explains*f.Rate {
			s.bytes = math.NaN()
		}
		s.late = s.late || span.once && math.IsNaN(s.bytes)
		list = append(list, s)
	}
	return list
}

// states are the containers that hold optimizers' state: they are as long as there are parameters.
func (p Process) states() map[string]bool {
	out := map[string]bool{}
	for _, t := range p.Tensors {
		if t.Role == "optimizer" {
			out[HolderOf(t.Holder)+".state"] = true
		}
	}
	return out
}

// counted takes the growth of containers that were counted between the censuses from these counts: at many moments, and
// also where no census saw them.
func (p Process) counted(f *Finding, list []suspect, accounts []account) []suspect {
	more := p.trainsMore()
	for _, a := range accounts {
		if !slices.Contains(a.counted, true) || a.tensors {
			continue
		}
		if a = a.during(f).again(); len(a.steps) < leastCensuses {
			continue
		}
		if chance, _ := a.constant(); a.trained && chance > concealed && !more {
			continue
		}
		s := suspect{holder: a.holder, site: a.site, kind: a.name(), class: RetainedObjects, container: true,
			bytes: a.pace(a.bytes), items: a.pace(a.items), length: a.items[len(a.items)-1], foreign: IsForeign(a.site)}
		if s.items == 0 && math.IsNaN(s.bytes) { // a table of lists, say: what is in it was not counted
			continue
		}
		_, last := a.emptied()
		s.shrank = last >= 0
		s.what = grownTo(s.kind, a.of, s.length, s.items, f.Unit())
		if inner, _, _ := strings.Cut(a.of, ";"); inner == "of torch.Tensor" || inner == "of "+parameter {
			s.class = RetainedTensors
		}
		if strings.Contains(a.of, "can't be seen") && s.bytes < explains*f.Rate {
			s.bytes = math.NaN()
		}
		list = append(slices.DeleteFunc(list, func(o suspect) bool { return o.container && o.holder == s.holder }), s)
	}
	return list
}

// loggers is the table of all loggers: libraries have hundreds before the first step.
const loggers = "logging.Logger.manager.loggerDict"

// grownGraph is by how much a graph must have grown: one that is made anew each step varies with where the step was at
// the census, one that is kept grows with the steps, by a quarter at least from one census to the next.
const grownGraph = 1.2

// leastNodes is what a graph must have gained: another branch of the same step has some nodes too.
const leastNodes = 16

// keptNodes a step, at the least, is what a graph that is kept has where one census alone saw it: a sum over all steps
// has two. The graph of one step has as many whenever it is looked at, few a step after hundreds.
const keptNodes = 0.5

// keptGraph says whether a graph is one that steps have added to, and not that of the step that was going on. Ever
// more tensors that each have one are of several steps.
func keptGraph(o, before model.ObjectGroup, nodes, over float64) bool {
	if o.Count >= moreItems && float64(o.Count) >= grownGraph*float64(before.Count) {
		return true
	}
	if before.Evidence == "" && nodes*over < keptNodes*max(over, MinSteps/2) {
		return false
	}
	return sizeOf(o) >= grownGraph*sizeOf(before) && sizeOf(o) >= sizeOf(before)+leastNodes
}

// parameter is what a census calls those of torch.
const parameter = "torch.nn.parameter.Parameter"

func suspectOf(o, before model.ObjectGroup, over float64, unit string) (suspect, bool) {
	s := suspect{holder: HolderOf(o.Holder), site: o.Site, bytes: math.NaN(), length: known(o.Length)}
	s.items = (sizeOf(o) - sizeOf(before)) / over
	if o.Bytes != model.Null && (before.Evidence == "" || before.Bytes != model.Null) {
		s.bytes = (float64(o.Bytes) - known(before.Bytes)) / over
	}
	name := o.Type[strings.LastIndexByte(o.Type, '.')+1:]
	s.kind = o.Evidence
	switch o.Evidence {
	case "container":
		s.container, s.kind = true, name
		s.bunch = o.Count > 1 && strings.HasPrefix(o.Holder, "<")
		s.kind = kindOf(name, o.Detail)
		s.unseen = strings.Contains(o.Detail, "can't be seen")
		s.class, s.what = RetainedObjects, grownTo(name, o.Detail, s.length, s.items, unit)
		if inner, _, _ := strings.Cut(o.Detail, ";"); inner == "of torch.Tensor" || inner == "of "+parameter {
			s.class = RetainedTensors
		}
	case "graph":
		s.class, s.what = AutogradGraph, fmt.Sprintf("autograd graph of %s nodes", units.Count(int64(s.length)))
		if !keptGraph(o, before, s.items, over) {
			s.items = 0 // the graph of the step that was going on
		}
	case "cycle":
		s.class, s.what = GCCycles, fmt.Sprintf("%s objects of %s in cycles", units.Count(o.Count), name)
		if strings.HasSuffix(o.Detail, "which is off") { // how much there is in all isn't known: some were examined
			s.uncollected, s.bytes = true, math.NaN()
		}
	case "traceback":
		s.class, s.what = RetainedTensors, fmt.Sprintf("%s, whose traceback keeps %s frames", name,
			units.Count(int64(s.length)))
	case "hooks":
		s.class, s.what = RetainedObjects, fmt.Sprintf("%s hooks, %+.3g per %s", units.Count(int64(s.length)), s.items,
			unit)
	case "native", "extension":
		s.class, s.what = NativeHeap, cmp.Or(o.Detail, "memory of a C extension")
	default: // growth of a type by itself says neither who nor where
		return s, false
	}
	return s, true
}

// sizeOf is a length, or a count where there is none.
func sizeOf(o model.ObjectGroup) float64 {
	if o.Length == model.Null {
		return float64(o.Count)
	}
	return float64(o.Length)
}

func known(n int64) float64 {
	if n == model.Null {
		return 0
	}
	return float64(n)
}
