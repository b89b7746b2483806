package detect

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/formats/model"
)

const (
	// explains is the share of the rate that a holder of known size must grow by: below it, it grows beside the leak.
	explains = 0.25
	// moreItems than before are more than come and go with the step. What holds unknown sizes must have gained
	// leastRise.
	moreItems = 3
	// piled is what a holder that only the last of several censuses saw must have at the least: there was nothing that
	// it could be compared with, and a model's tables have some items from the beginning.
	piled = 32
	// shrinks is the share of itself that a holder may lose from census to census: sizes of large ones are estimated.
	shrinks = 0.25
)

// holds says whether what was seen growing may be named as the holder of memory that grows by rate.
func (s suspect) holds(rate, over float64) bool {
	switch {
	case s.uncollected:
		return true
	case s.foreign || s.fleeting || s.shrank:
		return false
	case !math.IsNaN(s.bytes):
		return s.bytes >= explains*rate && s.bytes*explains <= rate // maps of files are larger than what they take
	case s.class == GCCycles: // the collector is on: young garbage is of the last steps, and it comes for it
		return false
	}
	return !s.bunch && s.items > 0 && s.items*over >= leastRise
}

// IsForeign says that a site lies in Python's library or in PyTorch: a function of theirs that holds something while it
// runs, or one of their modules ("<sys>:1" where it has no file). Other installed packages may be the program.
func IsForeign(site string) bool {
	if i := strings.LastIndex(site, "-packages/"); i >= 0 {
		return strings.HasPrefix(site[i+len("-packages/"):], "torch/")
	}
	return strings.HasPrefix(site, "<") || strings.Contains(site, "/lib/python3") ||
		strings.Contains(site, "/lib64/python3")
}

// IsInstalled says that a site lies in a package that was installed.
func IsInstalled(site string) bool { return strings.Contains(site, "-packages/") }

// local says that a holder's path begins at a running function's variable.
func local(path string) bool {
	root, _, _ := strings.Cut(path, "[")
	return strings.Contains(root, "().")
}

// size of a holder in one census.
type size struct {
	census int64
	value  float64
}

// history of a holder, in the order of the censuses.
type history []size

// with counts what a census saw.
func (h history) with(census int64, value float64) history {
	if n := len(h); n > 0 && h[n-1].census == census {
		h[n-1].value += value
		return h
	}
	return append(h, size{census, value})
}

// rises says from which census on a holder has only grown: the first one, or where it was emptied once the one after
// that, if enough censuses have seen it grow again. What is emptied now and then keeps nothing: shrank.
func (h history) rises(first int64) (from int64, shrank bool) {
	i := slices.IndexFunc(h, func(s size) bool { return s.census >= first })
	if i < 0 {
		return first, false
	}
	for from = first; i+1 < len(h); i++ {
		if h[i+1].value >= (1-shrinks)*h[i].value {
			continue
		}
		if from != first || len(h)-(i+1) < leastCensuses {
			return first, true
		}
		from = h[i+1].census
	}
	return from, false
}

// below says whether a path lies at a holder or below it.
func below(path, holder string) bool {
	rest, ok := strings.CutPrefix(path, holder)
	return ok && (rest == "" || strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "[") || rest[0] == ' ')
}

// sightings are what censuses have looked at: which roots, at which steps.
type sightings struct {
	steps map[int64]float64
	roots map[string][]int64 // censuses in order
	blind map[int64][]string // containers of which a census has not seen all
}

// notAll notes that a census has not seen all of a container, nor of what hangs there.
func (s *sightings) notAll(holder string, census int64) {
	if s.blind == nil {
		s.blind = map[int64][]string{}
	}
	s.blind[census] = append(s.blind[census], holder)
}

// unknown says that a census which has no row of a path need not have looked there.
func (s *sightings) unknown(path string, census int64) bool {
	return slices.ContainsFunc(s.blind[census], func(holder string) bool { return below(path, holder) })
}

func (s *sightings) add(path string, census int64) {
	if s.roots == nil {
		s.roots = map[string][]int64{}
	}
	root := rootOf(path)
	if list := s.roots[root]; !slices.Contains(list, census) {
		s.roots[root] = append(list, census)
		slices.Sort(s.roots[root])
	}
}

// rootOf is the running function or the module that a path begins with.
func rootOf(path string) string {
	if i := strings.Index(path, "()."); i >= 0 && local(path) {
		return path[:i]
	}
	root, _, _ := strings.Cut(path, ".")
	return root
}

// ownTables are those that a module has of its own: what one census saw there is the module, not growth.
var ownTables = map[string]bool{"_modules": true, "_parameters": true, "_buffers": true}

// newcomer says of what only the last of several censuses saw that it need not have grown.
func newcomer(holder string, items float64) bool { return ownTables[lastName(holder)] || items < piled }

// sighting is between which censuses a holder's growth is measured.
type sighting struct {
	from, to int64
	over     float64 // steps
	late     bool    // seen at the last of several only
	once     bool    // so is its root
}

// fleeting says whether what hangs at a function's variable was seen at one of several censuses only: it is of the
// step that was going on.
func (s sighting) fleeting(seen []size, first, last int64) bool {
	return len(seen) < 2 && (s.late || first != last && s.to == last)
}

// of gives the first census from `first` on that saw a holder, and the last one that looked where it hangs: as a
// process ends its functions have returned, and a census that was interrupted has not seen all. What appears late is
// not counted from zero, and what was there before the growth began is not spread over the time before.
func (s sightings) of(path string, seen []size, first, last int64, start float64) sighting {
	out := sighting{from: last, to: first}
	before := int64(0) // the census before the holder was first seen
	for _, id := range s.roots[rootOf(path)] {
		here := func(at size) bool { return at.census == id }
		if id >= first && id <= last && (!s.unknown(path, id) || slices.ContainsFunc(seen, here)) {
			out.to = id
		}
	}
	for _, at := range seen {
		if at.census >= first {
			out.from = min(out.from, at.census)
		}
	}
	for _, at := range slices.Backward(seen) { // what was there before the growth began is compared with that
		if out.from == out.to && at.census < first {
			out.from = at.census
		}
	}
	for _, id := range s.roots[rootOf(path)] {
		if id < out.from && id >= first {
			before = id
		}
	}
	// What the last census saw may have come before the growth that is judged: then it is older than that.
	begun := func(step float64) float64 {
		if start < s.steps[out.to] {
			return max(step, start)
		}
		return step
	}
	switch {
	case out.from < out.to: // a census before the first step counts as one at step 0
		out.over = s.steps[out.to] - begun(s.steps[out.from])
	case before > 0:
		out.late, out.over = true, s.steps[out.to]-begun(s.steps[before])
	default: // one census: all of it came since the growth began, unless that says that it began earlier
		out.once, out.over = first != last, s.steps[out.to]-start
		if out.over < s.steps[out.to]/4 {
			out.over = s.steps[out.to]
		}
	}
	out.over = max(1, out.over)
	return out
}

// objectKey is what an object's row is compared by.
type objectKey struct{ evidence, kind, holder string }

func keyOf(o *model.ObjectGroup) objectKey { return objectKey{o.Evidence, o.Type, o.Holder} }

// trail is what the censuses saw of one object.
type trail struct {
	objectKey
	sizes history
	rows  []*model.ObjectGroup // the last one of each size's census
}

// at is the row of a census; nil where it did not see the object.
func (t *trail) at(census int64) *model.ObjectGroup {
	i := slices.IndexFunc(t.sizes, func(s size) bool { return s.census == census })
	if i < 0 {
		return nil
	}
	return t.rows[i]
}

// trails are those of all objects in the order of their keys, and what the censuses looked at. They are the same for
// every finding of a process.
type trails struct {
	list []*trail
	seen sightings
}

// cut says that a census has not seen all of a container.
func cut(o *model.ObjectGroup) bool { return o.Evidence == "container" && o.Bytes == model.Null }

// wholly counts the censuses that have seen all of a container.
func (p Process) wholly() map[objectKey]int {
	out := map[objectKey]int{}
	for i := range p.Objects {
		if o := &p.Objects[i]; o.Evidence == "container" && !cut(o) && o.Step != model.Null {
			out[keyOf(o)]++
		}
	}
	return out
}

func (p Process) follow() *trails {
	out := &trails{seen: sightings{steps: map[int64]float64{}}}
	by, whole := map[objectKey]*trail{}, p.wholly()
	for i := range p.Objects {
		o := &p.Objects[i]
		if o.Evidence == Count {
			continue
		}
		if o.Step != model.Null {
			out.seen.steps[o.Census] = float64(o.Step)
		}
		if cut(o) {
			out.seen.notAll(HolderOf(o.Holder), o.Census)
			if whole[keyOf(o)] > 1 { // its bytes are compared between the censuses that know them
				out.seen.add(o.Holder, o.Census)
				continue
			}
		}
		t := by[keyOf(o)]
		if t == nil {
			t = &trail{objectKey: keyOf(o)}
			by[t.objectKey] = t
			out.list = append(out.list, t)
		}
		if t.sizes = t.sizes.with(o.Census, sizeOf(*o)); len(t.rows) < len(t.sizes) {
			t.rows = append(t.rows, o)
		}
		t.rows[len(t.rows)-1] = o
	}
	slices.SortFunc(out.list, func(a, b *trail) int {
		return cmp.Or(cmp.Compare(a.evidence, b.evidence), cmp.Compare(a.kind, b.kind), cmp.Compare(a.holder, b.holder))
	})
	for _, t := range out.list {
		for _, s := range t.sizes {
			out.seen.add(t.holder, s.census)
		}
	}
	for _, t := range p.Tensors {
		out.seen.add(t.Holder, t.Census)
	}
	return out
}
