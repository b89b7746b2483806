package detect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/units"
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
	text := "the censuses found nothing that explains it"
	var names []string
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
		if a = a.during(f); !a.container || IsForeign(a.site) || isInstalled(a.site) || a.pace(a.items) <= 0 ||
			a.items[len(a.items)-1]-a.items[0] < moreItems || strings.HasPrefix(a.holder, "logging.") {
			continue
		}
		if !slices.IsSorted(a.items) {
			continue
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b account) int { return cmp.Compare(b.pace(b.items), a.pace(a.items)) })
	return list
}

// plain are items that are no more than they seem: their bytes are known. Numbers may be descriptors of memory that no
// process maps.
var (
	plain   = regexp.MustCompile(`^$|^of (?:float|str|bool|bytes|NoneType|complex|tuple|list|dict|set)\b`)
	numbers = regexp.MustCompile(`^of int\b`)
)

// conceals says that the container's items may keep more than the census could see.
func (a account) conceals(f *Finding) bool {
	return !a.ends() && !plain.MatchString(a.of) && (f.Memory == Shared || !numbers.MatchString(a.of))
}

// name is the container's type, without its module.
func (a account) name() string { return a.kind[strings.LastIndexByte(a.kind, '.')+1:] }
