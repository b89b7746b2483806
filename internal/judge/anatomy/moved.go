package anatomy

import (
	"cmp"
	"path"
	"slices"
	"strconv"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Source gives the text of a line of a file as it was when a history was recorded; "" where that is not known.
type Source func(file string, line int) string

// place is a site of one side that the other does not have.
type place struct {
	name           string // the site
	file, function string
	line           int
	text           string
}

// moved pairs sites whose line numbers, or whose directories, differ. Within a function lines of the same text belong
// together; of the lines that are left, those that only one side has are paired in their order: code that stands above
// has grown or shrunk, what the lines do has stayed. Where one side has more of them nothing can be said. Functions of
// the same file go first, then those of files of the same name: another checkout, or another container.
func moved(a, b tally, sourceA, sourceB Source) map[string]string {
	leftA, leftB := onlyIn(a, b, sourceA), onlyIn(b, a, sourceB)
	out := map[string]string{}
	for _, key := range []func(p place) string{
		func(p place) string { return p.file + " " + p.function },
		func(p place) string { return path.Base(p.file) + " " + p.function },
	} {
		byA, byB := grouped(leftA, key), grouped(leftB, key)
		for function, list := range byB {
			pairSites(byA[function], list, out)
		}
		taken := map[string]bool{}
		for _, old := range out {
			taken[old] = true
		}
		leftA = slices.DeleteFunc(leftA, func(p place) bool { return taken[p.name] })
		leftB = slices.DeleteFunc(leftB, func(p place) bool { return out[p.name] != "" })
	}
	return out
}

// onlyIn are the places that one side has and the other has not.
func onlyIn(t, other tally, source Source) (out []place) {
	for name := range t {
		if _, ok := other[name]; ok {
			continue
		}
		if p, ok := splitPlace(name); ok {
			if source != nil {
				p.text = source(p.file, p.line)
			}
			out = append(out, p)
		}
	}
	order.By(out, func(x, y place) int {
		return cmp.Or(cmp.Compare(x.file, y.file), cmp.Compare(x.line, y.line), cmp.Compare(x.name, y.name))
	})
	return out
}

// grouped keeps the order within each group.
func grouped(list []place, key func(p place) string) map[string][]place {
	out := map[string][]place{}
	for _, p := range list {
		out[key(p)] = append(out[key(p)], p)
	}
	return out
}

// pairSites adds to out, for sites of B, the names of A's.
func pairSites(a, b []place, out map[string]string) {
	textsA, textsB := grouped(a, func(p place) string { return p.text }),
		grouped(b, func(p place) string { return p.text })
	same := func(p place) bool { return p.text != "" && len(textsA[p.text]) == 1 && len(textsB[p.text]) == 1 }
	var restA, restB []place
	for _, p := range a {
		if !same(p) {
			restA = append(restA, p)
		}
	}
	for _, p := range b {
		if same(p) {
			out[p.name] = textsA[p.text][0].name
		} else {
			restB = append(restB, p)
		}
	}
	if len(restA) != len(restB) {
		return
	}
	for i := range restB {
		out[restB[i].name] = restA[i].name
	}
}

var placeParts = pattern.Of(`^(.*?):([0-9]+) (.*)$`)

// splitPlace takes "file:line function" apart.
func splitPlace(name string) (p place, ok bool) {
	m := placeParts().FindStringSubmatch(name)
	if m == nil {
		return p, false
	}
	line, err := strconv.Atoi(m[2])
	return place{name: name, file: m[1], function: m[3], line: line}, err == nil
}

// LastMoment is the time of the last event, in µs since the epoch; 0 where the file has no times.
func (h *History) LastMoment() (last int64) {
	for _, d := range h.Devices {
		if d.From < d.To {
			last = max(last, h.Time[d.To-1])
		}
	}
	return last
}
