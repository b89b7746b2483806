package anatomy

import (
	"cmp"

	"github.com/memgauge/memgauge/internal/base/order"
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

// Compare sets the devices of two histories beside each other: those of the same number, or the only ones that can be
// told of. The sources of both, which may be nil, help to know lines again that have moved.
func Compare(a, b *History, sourceA, sourceB Source) (out []Diff) {
	as, bs := a.Told(), b.Told()
	if len(as) == 1 && len(bs) == 1 {
		return []Diff{pair{side{a, as[0], sourceA}, side{b, bs[0], sourceB}}.compare()}
	}
	for _, da := range as {
		for _, db := range bs {
			if da.Number == db.Number {
				out = append(out, pair{side{a, da, sourceA}, side{b, db, sourceB}}.compare())
			}
		}
	}
	return out
}

// side is a device of a history that is compared.
type side struct {
	h      *History
	d      *Device
	source Source
}

type pair struct{ a, b side }

func (p pair) compare() Diff {
	return Diff{
		DeviceA: p.a.d.Number, DeviceB: p.b.d.Number, Peak: p.deltas(p.a.d.Peak, p.b.d.Peak),
		End: p.deltas(p.a.d.EndRow(), p.b.d.EndRow()),
	}
}

// maxDeltas bounds the lines of a comparison.
const maxDeltas = 15

func (p pair) deltas(rowA, rowB int) Deltas {
	sitesA, usesA := p.a.h.tallies(p.a.d, rowA)
	sitesB, usesB := p.b.h.tallies(p.b.d, rowB)
	d := Deltas{Bytes: [2]int64{p.a.h.liveAfter(p.a.d, rowA), p.b.h.liveAfter(p.b.d, rowB)},
		Categories: changes(usesA, usesB, nil)}
	d.Sites = changes(sitesA, sitesB, moved(sitesA, sitesB, p.a.source, p.b.source))
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
			out = append(out, Delta{name, old, [2]int64{x.Bytes, y.Bytes}, [2]int{x.Blocks, y.Blocks},
				y.Bytes - x.Bytes})
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
	order.By(out, func(x, y Delta) int {
		return cmp.Or(cmp.Compare(max(y.Changed, -y.Changed), max(x.Changed, -x.Changed)), cmp.Compare(x.Name, y.Name))
	})
	return out
}
