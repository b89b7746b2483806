package detect

import (
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// row is a list as a census tells of it.
func row(holder, site string, length, bytes int64) model.ObjectGroup {
	return model.ObjectGroup{Evidence: "container", Type: "list", Holder: holder, Count: 1, Length: length,
		Bytes: bytes, Site: site}
}

// TestHoldersSeenBriefly: what one census alone saw need not have grown, and what a census had no time for is unknown.
func TestHoldersSeenBriefly(t *testing.T) {
	type objects = []model.ObjectGroup
	for name, c := range map[string]struct {
		objects func(census, step int64) []model.ObjectGroup
		holder  string
	}{
		"a search saw many lists once": {func(c, s int64) []model.ObjectGroup {
			all := objects{row("__main__.names", "a.py:1", 9, 900)}
			if lists := row("<list>", "", 12_000, 300*900_000); c == 2 {
				lists.Count = 33
				all = append(all, lists)
			}
			return all
		}, ""},
		"tables of a module that the last census came to": {func(c, s int64) []model.ObjectGroup {
			all := objects{row("__main__.names", "a.py:1", 9, 900)}
			if c == 3 {
				all = append(all, row("__main__.net._modules", "a.py:3", 40, s*900_000))
			}
			return all
		}, ""},
		"what the last census came to, of many items": {func(c, s int64) []model.ObjectGroup {
			all := objects{row("__main__.names", "a.py:1", 9, 900)}
			if c == 3 {
				all = append(all, row("__main__.bank", "a.py:3", 400, 400*1_200_000))
			}
			return all
		}, "__main__.bank"},
		"young garbage, of which the collector takes care": {func(c, s int64) []model.ObjectGroup {
			young := row("Node.parent", "a.py:3", model.Null, model.Null)
			young.Evidence, young.Count = "cycle", 40*c
			young.Detail = "7 objects hold each other; 90 young objects wait for the collector, which is on"
			return objects{young}
		}, ""},
		"unknown sizes, of which three came": {func(c, s int64) []model.ObjectGroup {
			return objects{row("__main__.handles", "a.py:3", 20+c*2, model.Null)}
		}, ""},
		"one that the last census had no time to enter": {func(c, s int64) []model.ObjectGroup {
			kept := row("__main__.kept", "a.py:3", s, s*500_000)
			if c == 3 {
				kept.Length, kept.Bytes = 12, model.Null
			}
			return objects{kept}
		}, "__main__.kept"},
	} {
		if f := first(t, leaky(c.objects)); f.Holder != c.holder {
			t.Errorf("%s: held by %q, want %q", name, f.Holder, c.holder)
		}
	}
}
