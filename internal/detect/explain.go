package detect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/units"
)

func sortBy(fs []Finding, less func(a, b Finding) bool) {
	slices.SortStableFunc(fs, func(a, b Finding) int {
		switch {
		case less(a, b):
			return -1
		case less(b, a):
			return 1
		}
		return 0
	})
}

// explain fills in class, holder, line, limit and advice of a finding.
func (p Process) explain(f *Finding, in Input) {
	accounts := p.accounts()
	p.testify(f, accounts)
	p.against(f, accounts, in.binding(f, p))
	if f.Verdict == Healthy {
		return
	}
	f.Evidence = append([]string{f.account()}, f.Evidence...)
	if f.Verdict == Leak {
		p.attribute(f, accounts)
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
	uncollected bool // garbage in cycles while the collector is off

	foreign  bool // a running function of Python's library or PyTorch holds it
	fleeting bool // a variable of the step that was going on
	shrank   bool // it was smaller at a later census
}

// attribute finds what holds the memory: what grew between the first census since the growth began and the last one,
// and comes nearest to the rate.
func (p Process) attribute(f *Finding, accounts []account) {
	f.Class = classOf(f.Memory)
	list := p.suspects(f)
	if len(list) == 0 {
		p.unexplained(f, accounts)
		return
	}
	best := list[0]
	f.Holder, f.Site, f.Held, f.Class, f.kind = best.holder, best.site, best.what, best.class, best.kind
	if f.Worker {
		f.Class = WorkerGrowth
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
		if o.Evidence != "native" || o.Census != last {
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
func (p Process) suspects(f *Finding) []suspect {
	tensors, objects := p.tensorSuspects(f), p.objectSuspects(f)
	for i := range objects {
		objects[i].hold(tensors)
	}
	list := append(tensors, objects...)
	for i := range list {
		list[i].graphs(objects)
	}
	own := slices.ContainsFunc(list, func(s suspect) bool {
		return s.site != "" && !IsForeign(s.site) &&
			!isInstalled(s.site)
	})
	list = slices.DeleteFunc(list, func(s suspect) bool {
		s.foreign = s.foreign || own && isInstalled(s.site) // else the program itself is an installed package
		return !s.holds(f.Rate, f.End-f.Start)
	})
	slices.SortStableFunc(list, func(a, b suspect) int { return cmp.Compare(b.weight(f.Rate), a.weight(f.Rate)) })
	return list
}

// hold says of a container that it holds tensors, and which lines make them.
func (s *suspect) hold(tensors []suspect) {
	if !s.container || s.holder == "" {
		return
	}
	sum := 0.0
	for _, t := range tensors {
		if strings.HasPrefix(t.holder, s.holder) {
			sum += math.Max(0, t.bytes)
			s.site = cmp.Or(s.site, t.site)
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
// remedy.
func (s *suspect) graphs(objects []suspect) {
	if s.class != RetainedTensors && s.class != RetainedObjects || s.items <= 0 {
		return
	}
	for _, o := range objects {
		if o.class == AutogradGraph && o.items > 0 && strings.HasPrefix(o.holder, s.holder) && s.holder != "" {
			s.class = AutogradGraph
			s.site = cmp.Or(s.site, o.site)
		}
	}
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
		return 0.2
	}
	w := math.Min(s.bytes/rate, rate/s.bytes)
	if s.items < 0.01 { // one thing that is large, not many that pile up
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
	site, role   string
}

// tensorSuspects compares the bytes of tensors by holder between censuses.
func (p Process) tensorSuspects(f *Finding) []suspect {
	byCensus, steps, more := map[int64]map[string]seen{}, map[int64]float64{}, p.trainsMore()
	for _, t := range p.Tensors {
		if (f.Device != "") != strings.HasPrefix(t.Device, "cuda") || t.Step == model.Null ||
			t.Role == "optimizer" && !more {
			continue
		}
		m := byCensus[t.Census]
		if m == nil {
			m = map[string]seen{}
			byCensus[t.Census], steps[t.Census] = m, float64(t.Step)
		}
		s := m[HolderOf(t.Holder)]
		s.bytes, s.count = s.bytes+float64(t.Bytes), s.count+float64(t.Count)
		s.site, s.role = cmp.Or(s.site, t.Site), cmp.Or(rolesKind[t.Role], "tensors")
		m[HolderOf(t.Holder)] = s
	}
	first, last, ok := span(steps, f.Start)
	if !ok {
		return nil
	}
	sizes := history{}
	for _, t := range p.Tensors {
		sizes.add(HolderOf(t.Holder), t.Census, float64(t.Bytes))
	}
	var list []suspect
	for holder, now := range byCensus[last] {
		before := byCensus[first][holder]
		if first == last { // one census: all of it came since the growth began
			before = seen{}
		}
		over := f.stretch(steps, first, last)
		s := suspect{holder: holder, site: now.site, class: RetainedTensors, kind: now.role,
			bytes: (now.bytes - before.bytes) / math.Max(over, 1), items: (now.count - before.count) / math.Max(over,
				1)}
		s.foreign, s.shrank, s.fleeting = IsForeign(now.site), sizes.shrank(holder, first),
			sizes.fleeting(holder, holder, first, last)
		s.what = fmt.Sprintf("%s tensors, %+.3g per %s", units.Count(int64(now.count)), s.items, f.Unit())
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b suspect) int { return cmp.Compare(a.holder, b.holder) })
	return list
}

// stretch is the steps that the growth between two censuses took. What the only one saw came since the growth began; a
// census from before the onset that was found says that it began earlier.
func (f Finding) stretch(steps map[int64]float64, first, last int64) float64 {
	over := steps[last] - steps[first]
	if first == last {
		over = steps[last] - f.Start
		if over < steps[last]/4 && !f.ByTime { // without steps there is much before the work begins
			over = steps[last]
		}
	}
	return math.Max(1, over)
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
	steps := map[int64]float64{}
	for _, o := range p.Objects {
		if o.Step != model.Null {
			steps[o.Census] = float64(o.Step)
		}
	}
	first, last, ok := span(steps, f.Start)
	if !ok {
		return nil
	}
	over := f.stretch(steps, first, last)
	earlier, sizes := map[string]model.ObjectGroup{}, history{}
	for _, o := range p.Objects {
		sizes.add(objectKey(o), o.Census, sizeOf(o))
		if o.Census == first && first != last {
			earlier[objectKey(o)] = o
		}
	}
	for _, o := range p.Objects {
		if o.Census == last {
			if s, ok := suspectOf(o, earlier[objectKey(o)], over, f.Unit()); ok {
				s.foreign, s.shrank = IsForeign(o.Site), sizes.shrank(objectKey(o), first)
				s.fleeting = sizes.fleeting(objectKey(o), o.Holder, first, last)
				list = append(list, s)
			}
		}
	}
	return list
}

// grownGraph is by how much a graph must have grown: one that is made anew each step varies with where the step was at
// the census, one that is kept grows with the steps, by a quarter at least from one census to the next.
const grownGraph = 1.2

func suspectOf(o, before model.ObjectGroup, over float64, unit string) (suspect, bool) {
	s := suspect{holder: HolderOf(o.Holder), site: o.Site, bytes: math.NaN(), length: known(o.Length)}
	s.items = (sizeOf(o) - sizeOf(before)) / over
	if o.Bytes != model.Null {
		s.bytes = (float64(o.Bytes) - known(before.Bytes)) / over
	}
	name := o.Type[strings.LastIndexByte(o.Type, '.')+1:]
	s.kind = o.Evidence
	switch o.Evidence {
	case "container":
		s.container, s.kind = true, name
		if strings.Contains(o.Detail, "functools._lru_list_elem") {
			s.kind = "cache"
		}
		s.class, s.what = RetainedObjects, fmt.Sprintf("%s, %s items, %+.3g per %s", name, units.Count(int64(s.length)),
			s.items, unit)
	case "graph":
		s.class, s.what = AutogradGraph, fmt.Sprintf("autograd graph of %s nodes", units.Count(int64(s.length)))
		if sizeOf(o) < grownGraph*sizeOf(before) {
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
