package tui

import (
	"math/rand/v2"
	"testing"
)

// A track against a plain list: within its bound nothing is lost, whatever stretch and however many slices are asked.
func TestTrackAgainstAList(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		tr := newTrack(func(a, b int) int { return max(a, b) })
		type reading struct {
			at int64
			v  int
		}
		var all []reading
		at := int64(0)
		for range random.IntN(300) {
			at += int64(random.IntN(50)) // 0: a reading that was there already
			v := random.IntN(1000)
			if n := len(all); n == 0 || at > all[n-1].at {
				all = append(all, reading{at, v})
			}
			tr.add(at, v)
		}
		from := int64(random.IntN(8000)) - 500
		to := from + 1 + int64(random.IntN(8000))
		n, stale := 1+random.IntN(40), int64(random.IntN(100))
		v, ok := tr.over(from, to, n, stale)
		start := from
		for k := range n {
			end := from + int64(float64(to-from)*float64(k+1)/float64(n))
			want, there := 0, false
			for _, r := range all {
				if r.at > start && r.at <= end {
					want, there = max(want, r.v), true
				}
			}
			for i := len(all) - 1; i >= 0 && !there; i-- {
				if all[i].at <= end {
					want, there = all[i].v, end-all[i].at <= stale
					break
				}
			}
			if ok[k] != there || there && v[k] != want {
				t.Fatalf("slice %d of %d of (%d, %d]: %d %v, want %d %v", k, n, from, to, v[k], ok[k], want, there)
			}
			start = end
		}
	}
}

// Thinning keeps every peak, the newest readings as they are, and the bound.
func TestTrackIsBounded(t *testing.T) {
	tr := newTrack(func(a, b int) int { return max(a, b) })
	for i := range 100_000 {
		v := 1
		if i == 12_345 {
			v = 9
		}
		tr.add(int64(i), v)
	}
	if len(tr.at) > maxPoints {
		t.Errorf("%d readings", len(tr.at))
	}
	top := 0
	for _, v := range tr.v {
		top = max(top, v)
	}
	if top != 9 || tr.last() != 99_999 || tr.at[len(tr.at)-2] != 99_998 {
		t.Errorf("highest %d, last %d, before it %d", top, tr.last(), tr.at[len(tr.at)-2])
	}
	if v, ok := tr.over(12_200, 12_600, 1, 0); !ok[0] || v[0] != 9 {
		t.Errorf("at the peak: %v %v", v, ok)
	}
	if tr.first() > 200 {
		t.Errorf("the first reading is at %d", tr.first())
	}
}
