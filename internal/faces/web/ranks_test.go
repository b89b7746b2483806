package web

import (
	"fmt"
	"math"
	"testing"

	"github.com/memgauge/memgauge/internal/fleet/skew"
)

// job makes what nodes of eight ranks tell, of which one rank leaks from the middle on.
func job(nodes, leaky int) ([]Member, [][]rankCell) {
	members, cells := make([]Member, nodes), make([][]rankCell, nodes)
	for n := range nodes {
		members[n] = Member{ID: fmt.Sprint("s", n), Node: fmt.Sprintf("n%04d", n)}
		for k := range 8 {
			rank := 8*n + k
			for c := range 100 {
				v := 1e9 + float64((rank*7919+c*104729)%1000)
				if rank == leaky && c > 50 {
					v += float64(c-50) * 50e6
				}
				cells[n] = append(cells[n], rankCell{Rank: rank, W: 4, At: int64(c), Allocated: &v, RSS: &v})
			}
		}
	}
	return members, cells
}

// However many ranks there are, the picture has as many rows as were asked for, and the odd one is in it.
func TestOddRankIsSeenAmongThousands(t *testing.T) {
	var r ranks
	r.fill(job(1000, 4321))
	r.report.Findings = []skew.Finding{{Kind: skew.Leak, Rank: 4321, Node: "n0540"}}
	h := r.draw(false, true, 0, 0, 400)
	if h.Ranks != 8000 || len(h.Rows) != 400 || len(h.Cells) != 400*h.Columns || h.Columns != 100 {
		t.Fatalf("%d ranks, %d rows, %d cells, %d columns", h.Ranks, len(h.Rows), len(h.Cells), h.Columns)
	}
	if len(h.Odd) != 1 || h.Odd[0].Rank != 4321 || h.Odd[0].ID != "s540" {
		t.Fatalf("odd: %+v", h.Odd)
	}
	seen := 0
	for i, row := range h.Rows {
		last := h.Cells[(i+1)*h.Columns-1]
		if row.Odd {
			seen++
			if row.Rank != 4321 || last != 255 {
				t.Errorf("row %d: %+v ends with %d", i, row, last)
			}
		} else if math.Abs(float64(last)-128) > 2 {
			t.Errorf("row %d, of no odd rank, ends with %d", i, last)
		}
	}
	if seen != 1 {
		t.Errorf("%d odd rows", seen)
	}
	if h = r.draw(true, false, 4320, 4328, 400); len(h.Rows) != 8 || h.Rows[1].Rank != 4321 || h.Rows[1].Count != 1 {
		t.Errorf("zoomed: %+v", h.Rows)
	}
}

// Sessions whose stretches of steps have other lengths are joined at the longest, and nonsense is left out.
func TestRanksAreJoinedAtEqualSteps(t *testing.T) {
	a, b, c := 10.0, 20.0, 5.0
	var r ranks
	r.fill([]Member{{"x", "n1"}, {"y", "n2"}}, [][]rankCell{
		{{0, 2, 0, &a, nil}, {0, 2, 1, &c, nil}, {0, 2, 5, &a, nil}, {0, 2, -1, &a, nil}, {0, 2, 1 << 40, &a, nil}},
		{{1, 8, 0, &b, &b}}})
	if len(r.list) != 2 || r.width != 8 || r.list[0].Allocated[0] != c || r.list[0].Allocated[1] != a ||
		r.list[1].Allocated[0] != b || !math.IsNaN(r.list[0].RSS[0]) {
		t.Errorf("width %d, %+v", r.width, r.list)
	}
	for _, q := range [][3]int{{0, 0, 0}, {-5, 1 << 30, 1 << 30}, {7, 9, 3}, {1, 1, -1}} {
		if h := r.draw(false, false, q[0], q[1], q[2]); len(h.Cells) != len(h.Rows)*h.Columns {
			t.Errorf("%v: %d cells, %d rows", q, len(h.Cells), len(h.Rows))
		}
	}
	r.fill(nil, nil)
	if h := r.draw(false, true, 0, 0, 10); len(h.Rows) != 0 || h.Ranks != 0 {
		t.Errorf("nothing: %+v", h)
	}
}

func BenchmarkRanks(b *testing.B) {
	var r ranks
	members, cells := job(1000, 4321)
	r.fill(members, cells)
	b.Run("read", func(b *testing.B) {
		for range b.N {
			r.fill(members, cells)
		}
	})
	b.Run("draw", func(b *testing.B) {
		for range b.N {
			r.draw(false, true, 0, 0, 800)
		}
	})
}

// TestWidthOfOneSession: stretches that one session makes up leave those of the others apart.
func TestWidthOfOneSession(t *testing.T) {
	members, cells := job(3, 5)
	v := 1.0
	for _, evil := range []rankCell{{W: 1 << 62, At: 1}, {W: 1 << 62}, {W: 3}, {W: 1, At: 127}, {W: 4, At: 1 << 62}} {
		evil.RSS = &v
		var r ranks
		r.fill(append(members, Member{"x", "evil"}), append(cells, []rankCell{evil}))
		if h := r.draw(false, false, 0, 0, 100); h.Width != 4 || h.Columns < 100 {
			t.Errorf("%+v: stretches of %d, %d columns", evil, h.Width, h.Columns)
		}
	}
}
