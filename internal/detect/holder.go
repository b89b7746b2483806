package detect

import (
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/model"
)

const (
	// explains is the share of the rate that a holder of known size must grow by: below it, it grows beside the leak.
	explains = 0.25
	// more items than before is what a holder of unknown size must have at the least: one or two come and go with the
	// step.
	moreItems = 3
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
		return s.bytes >= explains*rate
	}
	return s.items > 0 && s.items*over >= moreItems
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

// isInstalled says that a site lies in a package that was installed.
func isInstalled(site string) bool { return strings.Contains(site, "-packages/") }

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

// history of holders by name, in the order of the censuses.
type history map[string][]size

func (h history) add(name string, census int64, value float64) {
	list := h[name]
	if n := len(list); n > 0 && list[n-1].census == census {
		list[n-1].value += value
		return
	}
	h[name] = append(list, size{census, value})
}

// shrank says whether a holder became smaller between censuses from the first one on: what is emptied now and then
// keeps nothing.
func (h history) shrank(name string, first int64) bool {
	list := h[name]
	i := slices.IndexFunc(list, func(s size) bool { return s.census >= first })
	if i < 0 {
		return false
	}
	for ; i+1 < len(list); i++ {
		if list[i+1].value < (1-shrinks)*list[i].value {
			return true
		}
	}
	return false
}

// fleeting says whether a function's variable was seen at the last of several censuses only: it is of the step that was
// going on.
func (h history) fleeting(name, path string, first, last int64) bool {
	return first != last && local(path) && len(h[name]) < 2
}

// objectKey is what an object's row is compared by.
func objectKey(o model.ObjectGroup) string { return o.Evidence + "\x00" + o.Type + "\x00" + o.Holder }
