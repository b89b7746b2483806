package skew_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/fleet/skew/simulate"
)

// Each kind of fault is found and named, and nothing else is; a fleet without one is silent. The whole table, of 200
// simulations of 1,000 ranks, is printed by go run ./test/fleet.
func TestFaults(t *testing.T) {
	for i, kind := range append(simulate.Kinds, "") {
		f := simulate.New(uint64(i), kind, 304, 1000)
		in := skew.Input{Memory: skew.NewGrid(), Time: skew.NewGrid(), Host: skew.NewGrid()}
		f.Each(in.Memory.Add, in.Time.Add, in.Host.Add)
		r := skew.Judge(in)
		if len(r.Findings) != len(f.Faults) {
			t.Errorf("%s: planted %+v, found %+v", kind, f.Faults, r.Findings)
			continue
		}
		for _, p := range f.Faults {
			found := false
			for _, x := range r.Findings {
				if x.Rank == p.Rank && x.Node == p.Node {
					found = x.Kind == p.Kind && math.Abs(float64(x.Since)-float64(p.At)) <= 100
					if !strings.Contains(x.Text(), p.Node) {
						t.Errorf("the text does not name %s: %s", p.Node, x.Text())
					}
				}
			}
			if !found {
				t.Errorf("planted %+v, found %+v", p, r.Findings)
			}
		}
	}
}

// The order in which values come changes nothing.
func TestOrder(t *testing.T) {
	type value struct {
		unit skew.Unit
		step int64
		at   float64
	}
	var all []value
	none := func(skew.Unit, int64, float64) {}
	simulate.New(0, skew.Leak, 24, 500).Each(func(u skew.Unit, step int64, at float64) {
		all = append(all, value{u, step + 1000, at})
	}, none, none)
	judge := func() []skew.Finding {
		g := skew.NewGrid()
		for _, v := range all {
			g.Add(v.unit, v.step, v.at)
		}
		return skew.Judge(skew.Input{Memory: g}).Findings
	}
	want := judge()
	r := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		r.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		got := judge()
		if len(got) != len(want) || len(got) == 0 {
			t.Fatalf("%+v, in order %+v", got, want)
		}
		for i := range got {
			if got[i].Rank != want[i].Rank || got[i].Kind != want[i].Kind {
				t.Errorf("%+v, in order %+v", got[i], want[i])
			}
		}
	}
}

// Six ranks on three nodes, equal to the byte but for one that grows.
func TestSmall(t *testing.T) {
	g := skew.NewGrid()
	for rank := range 6 {
		for step := range int64(200) {
			v := 1e9
			if rank == 3 && step >= 50 {
				v += float64(step-50) * 4e6
			}
			g.Add(skew.Unit{Rank: rank, Node: string(rune('a' + rank/2))}, step, v)
		}
	}
	r := skew.Judge(skew.Input{Memory: g})
	if len(r.Findings) != 1 || r.Findings[0].Rank != 3 || r.Findings[0].Kind != skew.Leak || r.Findings[0].Since > 60 {
		t.Errorf("%+v", r.Findings)
	}
	if math.Abs(r.Slopes[0].Pace-4e6) > 2e5 {
		t.Errorf("slope %+v", r.Slopes[0])
	}
}

// What can't be compared is said, and values that are none are counted.
func TestNothingToCompare(t *testing.T) {
	g := skew.NewGrid()
	g.Add(skew.Unit{Rank: 0}, 1, 5)
	g.Add(skew.Unit{Rank: 0}, -1, 5)
	g.Add(skew.Unit{Rank: 0}, 2, math.NaN())
	r := skew.Judge(skew.Input{Memory: g, Time: skew.NewGrid(), Host: skew.NewGrid()})
	if len(r.Findings) > 0 || len(r.Warnings) != 3 || g.Refused != 2 || !strings.Contains(r.Text(), "not compared") {
		t.Errorf("%+v %d: %s", r, g.Refused, r.Text())
	}
}

// A rank that stopped is named, with the step that it made last.
func TestStopped(t *testing.T) {
	g := skew.NewGrid()
	for rank := range 40 {
		for step := range int64(1000) {
			if rank == 17 && step > 600 {
				break
			}
			g.Add(skew.Unit{Rank: rank, Node: "n"}, step, float64(step))
		}
	}
	r := skew.Judge(skew.Input{Time: g})
	if len(r.Findings) != 1 || r.Findings[0].Rank != 17 || r.Findings[0].LastStep != 600 {
		t.Errorf("%+v", r.Findings)
	}
}
