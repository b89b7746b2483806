package detect

import "math"

// grownModel takes a leak back where trees are boosted: each round adds trees to the model, which malloc holds and no
// census sees. What the censuses did see grow is no tree; where that is most of the growth, it is a leak all the same.
// How large a tree is depends on the data, so no rate tells the two apart.
func (p Process) grownModel(f *Finding, accounts []account) {
	if p.Boosts == "" || f.Worker || f.Device != "" || f.Verdict != Leak {
		return
	}
	seen := 0.0
	for _, a := range accounts {
		if a = a.during(f); len(a.steps) < 2 || a.ends() || a.device || IsForeign(a.site) {
			continue
		}
		if rate := a.pace(a.bytes); rate > 0 && !math.IsNaN(rate) {
			seen += rate
		}
	}
	if f.Why == Testified || seen > halfOf*f.Rate {
		return
	}
	f.because(GrowingModel, p.Boosts)
	f.Needs = 0
	f.Evidence = append(f.Evidence, "compare the rate with the size of the saved model divided by its rounds: "+
		"what exceeds that is a leak")
}
