package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func points(n int, at func(i int) float64) (xs, ys []float64) {
	for i := range n {
		xs, ys = append(xs, float64(i)), append(ys, at(i))
	}
	return xs, ys
}

func TestOrder(t *testing.T) {
	if m := Median([]float64{9, 1, 5}); m != 5 {
		t.Errorf("median %v", m)
	}
	if q := Quantile([]float64{0, 10}, 0.25); q != 2.5 {
		t.Errorf("quartile %v", q)
	}
	if !math.IsNaN(Median(nil)) || !math.IsNaN(TheilSen([]float64{1}, []float64{1})) {
		t.Error("no numbers have no median")
	}
	xs, ys := points(30, func(i int) float64 { return 3 * float64(i) })
	for i := range 8 {
		ys[i*3] += 1e6
	}
	if s := TheilSen(xs, ys); math.Abs(s-3) > 1e-9 {
		t.Errorf("slope %v beside outliers", s)
	}
}

// TestTrendUnderNoise: where there is no trend, 1 in 1000 may pass a test at 0.001; where there is one, it is found and
// lies in its interval.
// TestSelection compares with sorting, on values of which many are equal, or not numbers.
func TestSelection(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		xs := make([]float64, 1+r.IntN(200))
		for i := range xs {
			if xs[i] = float64(r.IntN(1 + r.IntN(1000))); r.IntN(300) == 0 {
				xs[i] = math.NaN()
			}
		}
		sorted := slices.Sorted(slices.Values(xs))
		for _, q := range []float64{0, r.Float64(), 0.5, 1} {
			at := q * float64(len(xs)-1)
			i := int(at)
			want := sorted[i]
			if i+1 < len(xs) {
				want += (at - float64(i)) * (sorted[i+1] - sorted[i])
			}
			if got := Quantile(xs, q); got != want && !(math.IsNaN(got) && math.IsNaN(want)) {
				t.Fatalf("quantile %v of %v is %v, not %v", q, xs, got, want)
			}
		}
	}
}

func TestTrendUnderNoise(t *testing.T) {
	noises := map[string]func(r *rand.Rand) func(int) float64{
		"white": func(r *rand.Rand) func(int) float64 { return func(int) float64 { return r.NormFloat64() } },
		"autoregressive": func(r *rand.Rand) func(int) float64 {
			x := 0.0
			return func(int) float64 { x = 0.6*x + r.NormFloat64(); return x }
		},
		"walk": func(r *rand.Rand) func(int) float64 {
			x := 0.0
			return func(int) float64 { x += r.NormFloat64(); return x }
		},
	}
	for name, noise := range noises {
		alarms, found, inside := 0, 0, 0
		const runs = 1000
		for k := range uint64(runs) {
			r := rand.New(rand.NewPCG(k, 3))
			at := noise(r)
			xs, ys := points(64, at)
			if FitTrend(xs, ys).P() < 0.001 {
				alarms++
			}
			for i := range ys {
				ys[i] += 2 * float64(i)
			}
			trend := FitTrend(xs, ys)
			if trend.P() < 0.001 {
				found++
			}
			if low, high := trend.Interval(0.95); low <= 2 && 2 <= high {
				inside++
			}
		}
		if alarms > runs*15/1000 {
			t.Errorf("%s: %d of %d without a trend pass at 0.001", name, alarms, runs)
		}
		if found < runs*99/100 || inside < runs*85/100 {
			t.Errorf("%s: of %d trends %d were found, %d intervals hold them", name, runs, found, inside)
		}
	}
}

func TestCurve(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	check := func(name string, bent bool, at func(x float64) float64) {
		xs, ys := points(64, func(i int) float64 { return 1000*at(float64(i)/63) + r.NormFloat64() })
		if c := FitCurve(xs, ys); (c.Evidence > 2) != bent {
			t.Errorf("%s: evidence %.1f for a bend", name, c.Evidence)
		}
	}
	check("line", false, func(x float64) float64 { return x })
	check("steeper and steeper", false, func(x float64) float64 { return x * x })
	check("warm-up", true, func(x float64) float64 { return 1 - math.Exp(-3*x) })
	check("logarithm", true, func(x float64) float64 { return math.Log(0.05 + x) })
	check("root", true, math.Sqrt)
	if c := FitCurve([]float64{1, 1}, []float64{1, 2}); c.Evidence > 0 {
		t.Errorf("two points: %v", c)
	}
}
