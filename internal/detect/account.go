package detect

import (
	"cmp"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
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
	bound              float64   // items at most; 0: none is known
	guarded            bool      // what adds to it tests its length
	free               bool      // what adds to it does so whatever its length
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
var atMost = regexp.MustCompile(`; (\d+) at most`)

// guardedDetail is how a census tells that the statement that adds to a container is reached only after a test of its
// length.
const guardedDetail = "; its length is tested"

// accounts are all holders that censuses saw, in the order of their names.
func (p Process) accounts() []account {
	by := map[string]*account{}
	at := func(key string) *account {
		if by[key] == nil {
			by[key] = &account{}
		}
		return by[key]
	}
	more := p.trainsMore()
	for _, t := range p.Tensors {
		if t.Step == model.Null {
			continue
		}
		device := strings.HasPrefix(t.Device, "cuda")
		holder := HolderOf(t.Holder)
		a := at("t\x00" + strconv.FormatBool(device) + t.Role + holder)
		a.holder, a.site, a.kind, a.device, a.tensors = holder, cmp.Or(t.Site, a.site), t.Role, device, true
		a.state = t.Role == "optimizer" && !more
		a.add(float64(t.Step), float64(t.Count), float64(t.Bytes), unknownAs(t.Fresh))
	}
	for _, o := range p.Objects {
		if o.Step == model.Null || o.Evidence != "container" && o.Evidence != "hooks" {
			continue
		}
		a := at(objectKey(o))
		a.holder, a.site, a.kind, a.container = HolderOf(o.Holder), cmp.Or(o.Site, a.site), o.Type, true
		a.add(float64(o.Step), sizeOf(o), unknownAs(o.Bytes), math.NaN())
		if m := atMost.FindStringSubmatch(o.Detail); m != nil {
			a.bound, _ = strconv.ParseFloat(m[1], 64)
		}
		a.guarded, a.of = strings.Contains(o.Detail, guardedDetail), o.Detail
	}
	list := make([]account, 0, len(by))
	for _, a := range by {
		if b := p.Bounds[a.holder]; a.container && a.bound == 0 {
			a.bound, a.guarded, a.free = b.Items, a.guarded || b.Kind == Bounded && b.Items == 0, b.Kind == Unbounded
		}
		list = append(list, *a)
	}
	slices.SortFunc(list, func(a, b account) int {
		return cmp.Or(cmp.Compare(a.holder, b.holder), cmp.Compare(a.kind, b.kind))
	})
	return sameUnderTwoNames(list)
}

// sameUnderTwoNames folds accounts of what went by one path at some censuses and by another at the others: which is
// found first depends on what runs at the moment. They end in the same name, are added to by the same line, and no
// census saw both.
func sameUnderTwoNames(list []account) (out []account) {
	for _, a := range list {
		i := slices.IndexFunc(out, func(b account) bool {
			return a.site != "" && a.site == b.site && a.kind == b.kind && a.device == b.device &&
				a.tensors == b.tensors && lastName(a.holder) == lastName(b.holder) && !meet(a.steps, b.steps)
		})
		if i < 0 {
			out = append(out, a)
			continue
		}
		out[i] = out[i].with(a)
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
	out.steps, out.items, out.bytes, out.fresh = nil, nil, nil, nil
	i, k := 0, 0
	for i < len(a.steps) || k < len(b.steps) {
		if k == len(b.steps) || i < len(a.steps) && a.steps[i] < b.steps[k] {
			out.add(a.steps[i], a.items[i], a.bytes[i], a.fresh[i])
			i++
		} else {
			out.add(b.steps[k], b.items[k], b.bytes[k], b.fresh[k])
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
	first, last := int64(math.MaxInt64), int64(0)
	counts := map[int64]int64{}
	for _, t := range p.Tensors {
		if first, last = min(first, t.Census), max(last, t.Census); t.Role == "parameter" {
			counts[t.Census] += t.Count
		}
	}
	return counts[last] > counts[first]
}

// unknownAs is NaN for what is not known.
func unknownAs(n int64) float64 {
	if n == model.Null {
		return math.NaN()
	}
	return float64(n)
}

// add takes one row; rows of the same census add up.
func (a *account) add(step, items, bytes, fresh float64) {
	if n := len(a.steps); n > 0 && a.steps[n-1] == step {
		a.items[n-1] += items
		a.bytes[n-1] += bytes
		a.fresh[n-1] += fresh
		return
	}
	a.steps, a.items = append(a.steps, step), append(a.items, items)
	a.bytes, a.fresh = append(a.bytes, bytes), append(a.fresh, fresh)
}

// since gives the part of the account from a step on.
func (a account) since(step float64) account {
	i, _ := slices.BinarySearch(a.steps, step)
	a.steps, a.items, a.bytes, a.fresh = a.steps[i:], a.items[i:], a.bytes[i:], a.fresh[i:]
	return a
}

// pace is what xs gained a step, from the first to the last census; 0 of fewer than two.
func (a account) pace(xs []float64) float64 {
	n := len(a.steps)
	if n < 2 || a.steps[n-1] <= a.steps[0] {
		return 0
	}
	return (xs[n-1] - xs[0]) / (a.steps[n-1] - a.steps[0])
}

// Constants of testimony.
const (
	// leastCensuses that say something of a rate: two always lie on a line.
	leastCensuses = 3
	// leastRise is what a container must have gained, in items: fewer come and go with a step.
	leastRise = 8
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
	n := len(a.steps)
	p = 1
	for i := 0; i+leastCensuses <= n; i++ {
		if q := a.straight(i); q < p {
			p, from = q, i
		}
	}
	return min(1, p*float64(n-leastCensuses+1)), from
}

func (a account) straight(from int) float64 {
	xs, ys := a.steps[from:], a.items[from:]
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
