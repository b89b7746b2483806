package detect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// looked says that some census was taken of the process.
func (p Process) looked() bool { return len(p.Tensors)+len(p.Objects) > 0 }

// unexplained is told of growth that nothing whose bytes the censuses know explains. What gains as many items from
// census to census may hold it all the same, where its items' bytes can't be seen: images, tables, traced modules,
// futures.
func (p Process) unexplained(f *Finding, accounts []account) {
	if p.nativeLine(f) {
		return
	}
	if !p.looked() {
		f.Evidence = append(f.Evidence, "no census was taken of this process")
		return
	}
	growing := p.growingWith(f, accounts)
	for _, a := range growing {
		if chance, _ := a.constant(); a.conceals(f) && chance < concealed {
			f.Holder, f.Site, f.kind = a.holder, a.site, a.name()
			f.Held = fmt.Sprintf("%s, %s items, %+.3g per %s", a.name(), units.Count(int64(a.items[len(a.items)-1])),
				a.pace(a.items), f.Unit())
			if f.Class == Unknown {
				f.Class = RetainedObjects
			}
			f.Evidence = append(f.Evidence, "what its items take can't be seen; it gains as many from census to census")
			return
		}
	}
	if p.makers(f) || p.frozenGarbage(f) {
		return
	}
	text := "the censuses found nothing that explains it"
	var names []string
	f.grows = len(growing) > 0
	for _, a := range growing[:min(len(growing), mostNamed)] {
		names = append(names, fmt.Sprintf("%s (%+.3g items per %s)", a.holder, a.pace(a.items), f.Unit()))
	}
	if len(names) > 0 {
		text += "; fastest-growing containers: " + strings.Join(names, ", ")
	}
	f.Evidence = append(f.Evidence, text)
	if f.Memory == Heap {
		f.Class = NativeHeap
		p.nativeCalls(f)
	}
}

// makes is the kind of call that a census names where the program makes such memory: no container need hold it, but a
// file in /dev/shm does, or a map that something in C refers to.
var makes = map[Kind]string{Shared: "shared", Mapped: "map", Private: "map"}

// makers names where the program makes shared memory, or maps files: whoever keeps it, that is where it comes from.
func (p Process) makers(f *Finding) bool {
	var found []model.ObjectGroup
	for _, o := range p.Objects {
		if o.Evidence == "native" && o.Type == makes[f.Memory] && !slices.ContainsFunc(found,
			func(other model.ObjectGroup) bool { return other.Site == o.Site }) {
			found = append(found, o)
		}
	}
	for i, o := range found {
		if i == 0 {
			f.Site, f.Holder, f.Held, f.kind = o.Site, o.Holder, "calls "+o.Detail, o.Type
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("such memory is made in %s, %s: %s; no container holds it",
			o.Holder, o.Site, o.Detail))
	}
	return len(found) > 0
}

// frozen is the kind of call that a census names where the program calls gc.freeze().
const frozen = "freeze"

// frozenGarbage names gc.freeze() where censuses saw garbage in cycles and nothing else explains the growth: what is
// frozen before the collector has come is garbage for good, and no census finds it any more.
func (p Process) frozenGarbage(f *Finding) bool {
	i := slices.IndexFunc(p.Objects, func(o model.ObjectGroup) bool {
		return o.Evidence == "native" && o.Type == frozen
	})
	k := slices.IndexFunc(p.Objects, func(o model.ObjectGroup) bool { return o.Evidence == "cycle" })
	if i < 0 || k < 0 || f.Device != "" {
		return false
	}
	call, garbage := p.Objects[i], p.Objects[k]
	f.Class, f.Site, f.Holder, f.kind = GCCycles, call.Site, garbage.Holder, frozen
	f.Held = "garbage in cycles, which gc.freeze() keeps from the collector"
	f.Evidence = append(f.Evidence, fmt.Sprintf("censuses saw objects of %s hold each other, and %s calls "+
		"gc.freeze(): garbage that it freezes is never collected", garbage.Type, call.Holder))
	return true
}

const (
	// concealed is the chance below which a gain from census to census is no accident, where nothing else names a
	// holder.
	concealed = 0.01
	// mostNamed containers are told of where none explains the growth.
	mostNamed = 3
)

// growingWith lists the program's own containers that have gained items since the growth began and lost none, the
// fastest first.
func (p Process) growingWith(f *Finding, accounts []account) (list []account) {
	for _, a := range accounts {
		if a = a.during(f).again(); !a.container || IsForeign(a.site) || IsInstalled(a.site) || a.pace(a.items) <= 0 ||
			a.items[len(a.items)-1]-a.items[0] < moreItems || strings.HasPrefix(a.holder, "logging.") {
			continue
		}
		if !slices.IsSorted(a.items) {
			continue
		}
		list = append(list, a)
	}
	order.Stable(list, func(a, b account) int { return cmp.Compare(b.pace(b.items), a.pace(a.items)) })
	return list
}

// plain are items that are no more than they seem: their bytes are known. Numbers may be descriptors of memory that no
// process maps.
var (
	plain   = pattern.Of(`^$|^of (?:float|str|bool|bytes|NoneType|complex|tuple|list|dict|set)\b`)
	numbers = pattern.Of(`^of int\b`)
)

// conceals says that the container's items may keep more than the census could see.
func (a account) conceals(f *Finding) bool {
	return !a.ends() && !plain().MatchString(a.of) && (f.Memory == Shared || !numbers().MatchString(a.of))
}

// name is the container's type, without its module, or its kind where that says more.
func (a account) name() string { return kindOf(a.kind[strings.LastIndexByte(a.kind, '.')+1:], a.of) }
