package detect

import (
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// A process that boosts trees grows by design; the same growth without trees, or where a census saw what makes it, is a
// leak.
func TestGrowingModel(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 2))
	var s Series
	for i := range 2000 {
		s.Steps = append(s.Steps, float64(i+1))
		s.Bytes = append(s.Bytes, 100e6+6000*float64(i)+1000*noise.NormFloat64())
	}
	var kept []model.ObjectGroup
	for i := range int64(6) {
		kept = append(kept, model.ObjectGroup{PID: 7, Census: i + 1, Step: 300 * (i + 1), Evidence: "container",
			Type: "list", Count: 1, Length: 300 * (i + 1), Bytes: 1_800_000 * (i + 1), Holder: "__main__.kept",
			Site: "train.py:3", Delta: 300})
	}
	for _, c := range []struct {
		name    string
		boosts  string
		objects []model.ObjectGroup
		want    Why
	}{
		{"trees", "XGBoost", nil, GrowingModel},
		{"no trees", "", nil, Steady},
		{"trees, and a list that grows as fast", "XGBoost", kept, Steady},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Run(Input{Steps: 2000, Over: true, Processes: []Process{{PID: 7, Rank: -1, Boosts: c.boosts, Heap: s,
				Last: 2000, Pace: 0.01, Objects: c.objects}}})
			if len(r.Findings) != 1 || r.Findings[0].Why != c.want {
				t.Errorf("%+v, want %v", r.Findings, c.want)
			}
		})
	}
}
