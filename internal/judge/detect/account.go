package detect

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// account is how one holder went from census to census. What a census did not see of it is zero where the holder was
// there later: it grew from nothing.
type account struct {
	holder, site, kind string
	of                 string // what its items are, of a container: "of builtins.tuple"
	device             bool   // its tensors are on a device
	tensors, container bool
	steps              []float64
	items, bytes       []float64 // bytes NaN: unknown
	fresh              []float64 // tensors that were not there at the census before; NaN unknown
	counted            []bool    // only its items were counted, between two censuses
	bound              float64   // items at most; 0: none is known
	rested             bool      // the bound is no more than that it gains no items: these may grow
	rests              float64   // the step from which on it has had as many, where it has rested
	guarded            bool      // what adds to it tests its length
	free               bool      // what adds to it does so whatever its length
	trained            bool      // parameters, or what an optimizer keeps of them: a network's size is somebody's plan
	state              bool      // of an optimizer, for parameters that are as many as ever: it is bounded by these
}

// Bound is what the program's own lines say of a container's length.
type Bound struct {
	Kind  BoundKind
	Items float64 // at most, of a bounded one; 0: what they are is not known
}

// BoundKind says whether there is a bound.
type BoundKind uint8

// The kinds of bounds.
const (
	BoundUnknown BoundKind = iota
	Bounded                // what adds to it tests its length, or what tests its length cuts it
	Unbounded              // what adds to it does so whatever its length
)

// atMost is how a census tells that a container has a bound: a deque's maxlen, a cache's maxsize.
var atMost = pattern.Of(`; (\d+) at most`)

// mapsOfFiles is how a census tells that a container's items are such maps.
const mapsOfFiles = "of numpy.memmap"

// Count is the evidence of a row that tells how many items a container had between two censuses.
const Count = "count"

// guardedDetail is how a census tells that the statement that adds to a container is reached only after a test of its
// length.
const guardedDetail = "; its length is tested"

// MostItems is the largest number of items that is a bound: what holds more takes eight bytes for each, 34 GB, before
// it has anything to keep.
const MostItems = 1 << 32

// besideData is what a tensor takes of the host's heap beside its data: TensorImpl, StorageImpl, the record of how it
// is freed, and what malloc adds to each and to the aligned block. Measured with mallinfo2 over tensors of 4 to 1024
// bytes (torch 2.15, glibc 2.36): 352 to 380 bytes each. The census counts the same in containers (walk.py, BESIDE).
const besideData = 352

// tensorBytes is what tensors of one row take of the memory that they lie in.
func tensorBytes(t model.TensorGroup) float64 {
	if strings.HasPrefix(t.Device, "cuda") {
		return float64(t.Bytes)
	}
	return float64(t.Bytes) + besideData*float64(t.Count)
}

// accounts are all holders that censuses saw, in the order of their names.
func (p Process) accounts() []account {
	type key struct { // of tensors, or of an object
		device       bool
		role, holder string
		object       objectKey
	}
	by := map[key]*account{}
	at := func(k key) *account {
		a := by[k]
		if a == nil {
			a = &account{}
			by[k] = a
		}
		return a
	}
	more, states := p.trainsMore(), p.states()
	for _, t := range p.Tensors {
		if t.Step == model.Null {
			continue
		}
		device := strings.HasPrefix(t.Device, "cuda")
		holder := HolderOf(t.Holder)
		a := at(key{device: device, role: t.Role, holder: holder})
		a.holder, a.site, a.kind, a.device, a.tensors = holder, cmp.Or(t.Site, a.site), t.Role, device, true
		a.state = t.Role == "optimizer" && !more
		a.trained = t.Role == "optimizer" || t.Role == "parameter"
		a.add(float64(t.Step), float64(t.Count), tensorBytes(t), unknownAs(t.Fresh), false)
	}
	for i := range p.Objects {
		o := p.Objects[i]
		counted := o.Evidence == Count
		if o.Step == model.Null || o.Evidence != "container" && o.Evidence != "hooks" && !counted {
			continue
		}
		if counted {
			o.Evidence = "container"
		}
		a := at(key{object: keyOf(&o)})
		a.holder, a.site, a.kind, a.container = HolderOf(o.Holder), cmp.Or(o.Site, a.site), o.Type, true
		size := unknownAs(o.Bytes)
		if strings.HasPrefix(o.Detail, mapsOfFiles) { // as large as the files, however little of them is in memory
			size = math.NaN()
		}
		a.add(float64(o.Step), sizeOf(o), size, math.NaN(), counted)
		if counted && a.of != "" { // a census says more
			continue
		}
		if strings.Contains(o.Detail, " at most") {
			if m := atMost().FindStringSubmatch(o.Detail); m != nil {
				if a.bound, _ = strconv.ParseFloat(m[1], 64); a.bound > MostItems {
					a.bound = 0
				}
			}
		}
		a.guarded, a.of = strings.Contains(o.Detail, guardedDetail), o.Detail
	}
	list := make([]account, 0, len(by))
	for _, a := range by {
		a.estimate()
		a.trained = a.trained || states[a.holder]
		a.limit(p.Bounds[a.holder])
		list = append(list, *a)
	}
	p.unseenContainers(list)
	order.By(list, func(a, b account) int {
		return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(a.kind, b.kind))
	})
	return sameUnderTwoNames(list)
}

// limit finds what bounds a container: its own, what the program's lines say, or that it has stopped.
func (a *account) limit(b Bound) {
	if !a.container || a.bound != 0 {
		return
	}
	a.bound, a.guarded, a.free = b.Items, a.guarded || b.Kind == Bounded && b.Items == 0, b.Kind == Unbounded
	if a.bound > 0 && slices.Max(a.items) > exceeds*a.bound { // the lines are not about this container
		a.bound = 0
	}
	if since, stopped := a.stopped(); a.bound == 0 && stopped {
		a.bound, a.rested, a.rests = a.items[len(a.items)-1], true, a.steps[since]
	}
}

// unseenContainers tells tensors what the program's lines say of the container that they lie in, where no census has
// seen that: how many items it has is not known then, but whether they have an end is.
func (p Process) unseenContainers(list []account) {
	seen := map[string]bool{}
	for _, a := range list {
		seen[a.holder] = seen[a.holder] || a.container
	}
	for i := range list {
		a := &list[i]
		if in, _, _ := strings.Cut(a.holder, "[*]"); a.tensors && !a.trained && !seen[in] {
			b := p.Bounds[in]
			a.guarded, a.free = b.Kind == Bounded, b.Kind == Unbounded
		}
	}
}

// sameUnderTwoNames folds accounts of what went by one path at some censuses and by another at the others: which is
// found first depends on what runs at the moment. They end in the same name, are added to by the same line, and no
// census saw both.
func sameUnderTwoNames(list []account) (out []account) {
	type likeness struct {
		site, kind, name string
		device, tensors  bool
	}
	type alike struct {
		at    []int           // in out
		steps map[float64]int // how many of them a census of the step saw
	}
	by := map[likeness]*alike{}
	for _, a := range list {
		if a.site == "" {
			out = append(out, a)
			continue
		}
		key := likeness{a.site, a.kind, lastName(a.holder), a.device, a.tensors}
		those := by[key]
		if those == nil {
			those = &alike{steps: map[float64]int{}}
			by[key] = those
		}
		i := -1
		if !slices.ContainsFunc(a.steps, func(x float64) bool { return those.steps[x] == len(those.at) }) {
			i = slices.IndexFunc(those.at, func(k int) bool { return !meet(a.steps, out[k].steps) })
		}
		for _, x := range a.steps {
			those.steps[x]++
		}
		if i >= 0 {
			out[those.at[i]] = out[those.at[i]].with(a)
			continue
		}
		those.at = append(those.at, len(out))
		out = append(out, a)
	}
	return out
}

// lastName is what a path ends with.
func lastName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }

// meet says that two lists of steps have one in common.
func meet(a, b []float64) bool {
	return slices.ContainsFunc(a, func(x float64) bool { return slices.Contains(b, x) })
}

// with takes another account's censuses into this one, in their order.
func (a account) with(b account) account {
	out := a
	out.steps, out.items, out.bytes, out.fresh, out.counted = nil, nil, nil, nil, nil
	i, k := 0, 0
	for i < len(a.steps) || k < len(b.steps) {
		if k == len(b.steps) || i < len(a.steps) && a.steps[i] < b.steps[k] {
			out.add(a.steps[i], a.items[i], a.bytes[i], a.fresh[i], a.counted[i])
			i++
		} else {
			out.add(b.steps[k], b.items[k], b.bytes[k], b.fresh[k], b.counted[k])
			k++
		}
	}
	if b.steps[len(b.steps)-1] > a.steps[len(a.steps)-1] {
		out.holder = b.holder
	}
	return out
}

// trainsMore says that there are more parameters than at the first census.
func (p Process) trainsMore() bool {
	first, seen := int64(math.MaxInt64), int64(0)
	counts := map[int64]int64{}
	for _, t := range p.Tensors {
		if first = min(first, t.Census); t.Role == "parameter" {
			counts[t.Census] += t.Count
		}
	}
	for id := range counts { // a census that was cut short has not seen them all, and tells of none
		seen = max(seen, id)
	}
	return counts[seen] > counts[first]
}

// unknownAs is NaN for what is not known.
func unknownAs(n int64) float64 {
	if n == model.Null {
		return math.NaN()
	}
	return float64(n)
}

// add takes one row; rows of the same census add up.
func (a *account) add(step, items, bytes, fresh float64, counted bool) {
	if n := len(a.steps); n > 0 && a.steps[n-1] == step {
		switch {
		case counted: // a census of the same step has seen it, or a count
			return
		case a.counted[n-1]: // a census knows better
			a.items[n-1], a.bytes[n-1], a.fresh[n-1], a.counted[n-1] = items, bytes, fresh, false
			return
		}
		a.items[n-1] += items
		a.bytes[n-1] += bytes
		a.fresh[n-1] += fresh
		return
	}
	a.steps, a.items = append(a.steps, step), append(a.items, items)
	a.bytes, a.fresh, a.counted = append(a.bytes, bytes), append(a.fresh, fresh), append(a.counted, counted)
}

// estimate gives the moments at which only items were counted bytes by what an item took in the census before: of the
// newest item alone, which a count looks at, nobody knows whether it is like the others. Before any census that is all
// there is.
func (a *account) estimate() {
	each := math.NaN()
	for i := range a.steps {
		switch {
		case !a.counted[i]:
			each = a.bytes[i] / max(1, a.items[i])
		case !math.IsNaN(each):
			a.bytes[i] = each * a.items[i]
		}
	}
}

// censuses gives the account without the moments at which only items were counted.
func (a account) censuses() account {
	out := a
	out.steps, out.items, out.bytes, out.fresh, out.counted = nil, nil, nil, nil, nil
	for i := range a.steps {
		if !a.counted[i] {
			out.add(a.steps[i], a.items[i], a.bytes[i], a.fresh[i], false)
		}
	}
	return out
}

// since gives the part of the account from a step on.
func (a account) since(step float64) account {
	i, _ := slices.BinarySearch(a.steps, step)
	a.steps, a.items, a.bytes, a.fresh, a.counted = a.steps[i:], a.items[i:], a.bytes[i:], a.fresh[i:], a.counted[i:]
	return a
}

// again is the account since it was emptied, where that happened once: what grows again as before is kept. What is
// cleared each epoch loses its items more than once.
func (a account) again() account {
	at := -1
	for i := 1; i < len(a.items); i++ {
		if a.items[i] >= (1-shrinks)*a.items[i-1] {
			continue
		}
		if at > 0 {
			return a
		}
		at = i
	}
	if at < 0 {
		return a
	}
	return a.since(a.steps[at])
}

// stays says whether a container has had as many items as ever, whenever it was counted.
func (a account) stays() bool {
	return a.container && len(a.items) >= leastCensuses && slices.Contains(a.counted, true) &&
		slices.Min(a.items) == slices.Max(a.items)
}

// pace is what xs gained a step, from the first to the last census that knows of it; 0 of fewer than two censuses, NaN
// where fewer than two know.
func (a account) pace(xs []float64) float64 {
	i, k := 0, len(a.steps)-1
	if k < 1 || a.steps[k] <= a.steps[0] {
		return 0
	}
	for i < k && math.IsNaN(xs[i]) {
		i++
	}
	for i < k && math.IsNaN(xs[k]) {
		k--
	}
	if a.steps[k] <= a.steps[i] {
		return math.NaN()
	}
	return (xs[k] - xs[i]) / (a.steps[k] - a.steps[i])
}

// Constants of testimony.
const (
	// leastCensuses that say something of a rate: two always lie on a line.
	leastCensuses = 3
	// leastRise is what a container must have gained, in items: fewer come and go with a step.
	leastRise = 8
	// rests is the share of the time for which a container that has had its fill must have had it.
	rests = 0.1
	// mostMoments of an account are compared: of twenty counts the neighbours tell the same.
	mostMoments = 12
	// exceeds is by how much a container may be longer than the bound that its program's lines give: it may be cut now
	// and then only.
	exceeds = 2
	// slackens is the share of its mean gain below which a container's last gain has fallen off.
	slackens = 0.9
)

// constant is the chance that a container whose size wanders gains so constant a number of items a step by accident: of
// the sizes between its first and last census, m−2 of them, each lies as near to the line between those two as it does.
// For sizes without memory a share 2e of the rise is as near as e; for a size that wanders the shares are of the same
// order, and half of all rises are falls: p = ½ (2e)^(m−2), e being the largest distance as a share of the rise, with
// the steps' own granularity added. Simulated in TestConstantGrowthIsNoAccident. The longest suffix of censuses with
// the least p counts, times how many suffixes there are. from is the index of its first census.
func (a account) constant() (p float64, from int) {
	n, tries := len(a.steps), 0
	p = 1
	for i := 0; i+leastCensuses <= n; i += 1 + n/(2*mostMoments) {
		tries++
		if q := a.straight(i); q < p {
			p, from = q, i
		}
	}
	if longest, last := a.emptied(); last >= 0 && a.steps[n-1]-a.steps[max(from, last)] < outlast*longest {
		return 1, from
	}
	return min(1, p*float64(tries)), from
}

// emptied says how many steps the longest rise lasted before the container lost a part of its items, and when that
// happened last; -1 for never. What is cleared each epoch gains as many items a step in between.
func (a account) emptied() (longest float64, last int) {
	begin, last := 0, -1
	for i := 1; i < len(a.items); i++ {
		if a.items[i] < (1-shrinks)*a.items[i-1] {
			longest, begin, last = max(longest, a.steps[i-1]-a.steps[begin]), i, i
		}
	}
	return longest, last
}

// stopped says that a container that grew has as many items as it had at least three counts ago, and has had them for
// twice as long as ever before: a leak that gains something each epoch rests as long each time. since is the moment
// from which on it has had so many.
func (a account) stopped() (since int, yes bool) {
	n := len(a.items)
	longest := 0.0
	for i := 1; i < n; i++ {
		if a.items[i] != a.items[i-1] {
			longest, since = max(longest, a.steps[i-1]-a.steps[since]), i
		}
	}
	return since, since > 0 && n-since > leastCensuses && a.items[since] > a.items[since-1] &&
		a.steps[n-1]-a.steps[since] > 2*longest && a.steps[n-1]-a.steps[since] > rests*(a.steps[n-1]-a.steps[0])
}

// moments are some of the account's moments from one on, evenly spread: neighbours of many are not independent.
func (a account) moments(from int) (xs, ys []float64) {
	n := len(a.steps) - from
	if n <= mostMoments {
		return a.steps[from:], a.items[from:]
	}
	first, last := a.steps[from], a.steps[len(a.steps)-1]
	at := from
	for k := range mostMoments {
		wanted := first + (last-first)*float64(k)/(mostMoments-1)
		for at < len(a.steps)-1 && a.steps[at] < wanted {
			at++
		}
		if m := len(xs); m == 0 || a.steps[at] > xs[m-1] {
			xs, ys = append(xs, a.steps[at]), append(ys, a.items[at])
		}
	}
	return xs, ys
}

func (a account) straight(from int) float64 {
	xs, ys := a.moments(from)
	if len(xs) < leastCensuses {
		return 1
	}
	last := len(xs) - 1
	rise, width := ys[last]-ys[0], xs[last]-xs[0]
	if rise < leastRise || width <= 0 || rise < shrinks/2*ys[last] {
		return 1
	}
	pace, e := rise/width, 0.0
	for i := 1; i < last; i++ {
		if xs[i] == xs[i-1] || ys[i] <= ys[i-1] {
			return 1
		}
		e = max(e, math.Abs(ys[i]-ys[0]-pace*(xs[i]-xs[0]))/rise)
	}
	// A gain that falls off is that of what fills, however clear the rise is.
	if late := (ys[last] - ys[last-1] + 1 + pace) / (xs[last] - xs[last-1]); late < slackens*pace {
		return 1
	}
	e += (1 + pace) / rise // a census falls into some moment of a step
	return min(1, math.Pow(min(1, 2*e), float64(last-1))/2)
}
