package skew

import "testing"

// TestSmallStages: a pipeline's stages of eight ranks differ by gigabytes, and no rank of theirs has piled up; one that
// holds more than its stage has.
func TestSmallStages(t *testing.T) {
	for _, pile := range []int{-1, 0, 20} {
		g := NewGrid()
		for rank := range 64 {
			level := []float64{40, 35, 42, 38, 44, 37, 45, 39}[rank/8] * 1e9
			if rank == pile {
				level += 6e9
			}
			for step := range int64(64) {
				g.Add(Unit{Rank: rank, Node: "n"}, step, level+float64((int(step)*7+rank*13)%11)*1e6)
			}
		}
		got := Judge(Input{Memory: g}).Findings
		switch {
		case pile < 0 && len(got) > 0:
			t.Errorf("nothing is odd: %+v", got)
		case pile >= 0 && (len(got) != 1 || got[0].Rank != pile || got[0].Kind != PileUp):
			t.Errorf("rank %d piles up: %+v", pile, got)
		}
	}
}

// TestCacheIsNoLeak: what a node holds for a while is not what it keeps.
func TestCacheIsNoLeak(t *testing.T) {
	g := NewGrid()
	for step, v := range []float64{5, 9, 8, 3, 7, 4} {
		g.Add(Unit{Rank: -1, Node: "n"}, int64(step), v)
	}
	for b, want := range []float64{3, 3, 3, 3, 4, 4} {
		if got := g.stays().at(0, b); got != want {
			t.Errorf("bucket %d: %v, want %v", b, got, want)
		}
	}
	if g.at(0, 1) != 9 {
		t.Error("the grid itself has changed")
	}
}
