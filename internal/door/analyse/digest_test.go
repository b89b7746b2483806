package analyse

import (
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestDigest holds digests to what the rows themselves say, whatever order they come in: buckets are as narrow as they
// may be, each has the floors of its steps, and a digest of few steps has every one.
func TestDigest(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, n := range []int{1, 2, 100, mostBuckets, mostBuckets + 1, 5*mostBuckets + 3} {
		low := r.IntN(3 * mostBuckets)
		bytes, made := make([]float64, n), [2]*digest{newDigest(), newDigest()}
		for i := range bytes {
			if bytes[i] = float64(r.IntN(50)); r.IntN(9) == 0 {
				bytes[i] = math.NaN()
			}
		}
		for which, order := range [2][]int{upTo(n), r.Perm(n)} {
			for _, i := range order {
				step := float64(low + i)
				b := made[which].of(step)
				b.take(heap, step, bytes[i])
				b.ended(at{step, 1e6 * step})
				b.tokens = plus(b.tokens, 1)
			}
		}
		d := made[0]
		if !same(d, made[1]) {
			t.Fatalf("%d steps from %d: another digest in another order", n, low)
		}
		if d.shift > 0 && (low+n-1)>>(d.shift-1)-low>>(d.shift-1) < mostBuckets || d.high != float64(low+n-1) {
			t.Errorf("%d steps from %d: buckets of %d, the highest step is %.0f", n, low, 1<<d.shift, d.high)
		}
		seen := 0.0
		for k, b := range d.list {
			want := emptyBucket
			for i := max(0, (d.first+k)<<d.shift-low); i < min(n, (d.first+k+1)<<d.shift-low); i++ {
				want.take(heap, float64(low+i), bytes[i])
				want.end = at{float64(low + i), 1e6 * float64(low+i)}
			}
			if b.floors != want.floors || b.end != want.end {
				t.Fatalf("%d steps from %d: bucket %d is %+v, not %+v", n, low, k, b, want)
			}
			seen += b.tokens
		}
		if seen != float64(n) {
			t.Errorf("%.0f of %d steps", seen, n)
		}
	}
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// same compares two digests; NaN is NaN.
func same(a, b *digest) bool {
	return a.shift == b.shift && a.first == b.first && a.high == b.high && len(a.list) == len(b.list) &&
		reflect.DeepEqual(a.series(heap), b.series(heap)) && reflect.DeepEqual(a.clock(), b.clock())
}
