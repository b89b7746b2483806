package anatomy

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// lives is how many iterations a block has lived through: 0 if it was freed in the one that made it.
func (h *History) lives(alloc int) int {
	starts := h.starts(alloc)
	end := int(h.Partner[alloc])
	if end == None {
		end = len(h.Action)
	}
	return sort.SearchInts(starts, end+1) - sort.SearchInts(starts, alloc+1)
}

// starts are the iterations of a row's device.
func (h *History) starts(row int) []int {
	for _, d := range h.Devices {
		if d.From <= row && row < d.To {
			return d.Iterations.Starts
		}
	}
	return nil
}

// growth judges the lowest level of each whole iteration, and sums what iterations have left by site.
func (h *History) growth(d *Device) Growth {
	starts := d.Iterations.Starts
	g := Growth{By: d.Iterations.By, Iterations: max(0, len(starts)-1), Verdict: string(detect.Undecided)}
	if g.Iterations < minIterations {
		g.Reason = "no iterations can be told apart: mark them with torch.profiler.record_function(\"step\"), or record the optimizer's stacks"
		if g.By != "" {
			g.Reason = fmt.Sprintf("%d whole iterations are too few to judge", g.Iterations)
			if g.Iterations == 1 {
				g.Reason = "one whole iteration is too little to judge"
			}
		}
		return g
	}
	var floors detect.Series
	for k := range g.Iterations {
		floors.Steps = append(floors.Steps, float64(k))
		floors.Bytes = append(floors.Bytes, float64(slices.Min(h.Live[starts[k]:starts[k+1]])))
	}
	j := detect.Judge(floors)
	g.Verdict, g.Reason, g.Rate, g.RateLow, g.RateHigh = string(j.Verdict), j.Reason, j.Rate, j.Low, j.High
	g.Start, g.Needs = j.Start, j.Needs
	g.Sites, g.SitesLeft = h.left(d, starts)
	return g
}

// left sums what is alive at the end and was made in whole iterations but the last, which may still need it.
func (h *History) left(d *Device, starts []int) (out []SiteGrowth, more int) {
	type key struct {
		site      string
		iteration int
	}
	sites, seen := map[string]*SiteGrowth{}, map[key]bool{}
	last := starts[len(starts)-2]
	for i := starts[0]; i < last; i++ {
		if h.Action[i] != snapshot.IsAlloc || h.Partner[i] != None {
			continue
		}
		name := h.siteName(h.Stack[i])
		s := sites[name]
		if s == nil {
			s = &SiteGrowth{Share: Share{Name: name}}
			sites[name] = s
		}
		s.Bytes += h.Size[i]
		s.Blocks++
		if k := (key{name, sort.SearchInts(starts, i+1)}); !seen[k] {
			seen[k] = true
			s.Iterations++
		}
	}
	for _, s := range sites {
		out = append(out, *s)
	}
	order.By(out, func(a, b SiteGrowth) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Name, b.Name))
	})
	if len(out) > maxHolders {
		return out[:maxHolders], len(out) - maxHolders
	}
	return out, 0
}
