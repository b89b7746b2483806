package anatomy

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
)

// Diff is what one device's history has more and less of than another's. Sizes are in bytes; B less A.
type Diff struct {
	DeviceA int    `json:"device_a"`
	DeviceB int    `json:"device_b"`
	Peak    Deltas `json:"peak"`
	End     Deltas `json:"end"` // live after the last event
}

// Deltas compares two moments.
type Deltas struct {
	Bytes      [2]int64 `json:"requested_bytes"` // of A and of B
	Sites      []Delta  `json:"sites"`
	SitesLeft  int      `json:"sites_not_listed"`
	Categories []Delta  `json:"categories"`
}

// Delta is one line of a comparison. Name is B's, or A's where B has none.
type Delta struct {
	Name    string   `json:"name"`
	Moved   string   `json:"name_a,omitempty"` // A's, where its line number was another
	Bytes   [2]int64 `json:"bytes"`
	Blocks  [2]int   `json:"blocks"`
	Changed int64    `json:"changed_bytes"`
}

// Compare sets the devices of two histories beside each other: those of the same number, or the only ones that have events.
func Compare(a, b *History) (out []Diff) {
	withEvents := func(h *History) (list []*Device) {
		for _, d := range h.Devices {
			if d.From < d.To {
				list = append(list, d)
			}
		}
		return list
	}
	as, bs := withEvents(a), withEvents(b)
	if len(as) == 1 && len(bs) == 1 {
		return []Diff{compare(a, as[0], b, bs[0])}
	}
	for _, da := range as {
		for _, db := range bs {
			if da.Number == db.Number {
				out = append(out, compare(a, da, b, db))
			}
		}
	}
	return out
}

func compare(a *History, da *Device, b *History, db *Device) Diff {
	return Diff{
		DeviceA: da.Number, DeviceB: db.Number,
		Peak: deltas(a, da, da.Peak, b, db, db.Peak), End: deltas(a, da, da.To-1, b, db, db.To-1),
	}
}

// maxDeltas bounds the lines of a comparison.
const maxDeltas = 15

func deltas(a *History, da *Device, rowA int, b *History, db *Device, rowB int) Deltas {
	sitesA, usesA := a.tallies(da, rowA)
	sitesB, usesB := b.tallies(db, rowB)
	d := Deltas{Bytes: [2]int64{a.Live[rowA], b.Live[rowB]}, Categories: changes(usesA, usesB, nil)}
	d.Sites = changes(sitesA, sitesB, moved(sitesA, sitesB))
	if len(d.Sites) > maxDeltas {
		d.Sites, d.SitesLeft = d.Sites[:maxDeltas], len(d.Sites)-maxDeltas
	}
	return d
}

// tallies sums what is live after a row, by site and by use.
func (h *History) tallies(d *Device, row int) (sites, uses tally) {
	sites, uses = tally{}, tally{}
	h.alive(d, row, func(alloc, block int, bytes int64, stack uint32) {
		sites.add(h.siteName(stack), bytes)
		uses.add(h.use(alloc, block).String(), bytes)
	})
	return sites, uses
}

// changes lists what differs, the largest change first. moved gives A's name of a site of B.
func changes(a, b tally, moved map[string]string) (out []Delta) {
	done := map[string]bool{}
	add := func(name, old string, x, y Share) {
		if x.Bytes != y.Bytes || x.Blocks != y.Blocks {
			out = append(out, Delta{name, old, [2]int64{x.Bytes, y.Bytes}, [2]int{x.Blocks, y.Blocks}, y.Bytes - x.Bytes})
		}
	}
	for name, y := range b {
		if old, ok := moved[name]; ok {
			done[old] = true
			add(name, old, a[old], y)
			continue
		}
		done[name] = true
		add(name, "", a[name], y)
	}
	for name, x := range a {
		if !done[name] {
			add(name, "", x, Share{})
		}
	}
	slices.SortFunc(out, func(x, y Delta) int {
		return cmp.Or(cmp.Compare(max(y.Changed, -y.Changed), max(x.Changed, -x.Changed)), cmp.Compare(x.Name, y.Name))
	})
	return out
}

// moved pairs sites whose line numbers differ. Within a function the lines that only one side has are paired in their order: code
// that stands above has grown or shrunk, what the lines do has stayed. Where one side has more of them nothing can be said.
func moved(a, b tally) map[string]string {
	type place struct {
		line int
		name string
	}
	byFunction := func(t, other tally) map[string][]place {
		m := map[string][]place{}
		for name := range t {
			if _, ok := other[name]; ok {
				continue
			}
			if function, line, ok := splitPlace(name); ok {
				m[function] = append(m[function], place{line, name})
			}
		}
		for _, list := range m {
			slices.SortFunc(list, func(x, y place) int { return cmp.Compare(x.line, y.line) })
		}
		return m
	}
	onlyA, onlyB := byFunction(a, b), byFunction(b, a)
	out := map[string]string{}
	for function, list := range onlyB {
		if old := onlyA[function]; len(old) == len(list) {
			for i := range list {
				out[list[i].name] = old[i].name
			}
		}
	}
	return out
}

var placeParts = regexp.MustCompile(`^(.*?):([0-9]+) (.*)$`)

// splitPlace takes "file:line function" apart; function is "file function".
func splitPlace(name string) (function string, line int, ok bool) {
	m := placeParts.FindStringSubmatch(name)
	if m == nil {
		return "", 0, false
	}
	line, err := strconv.Atoi(m[2])
	return m[1] + " " + m[3], line, err == nil
}
