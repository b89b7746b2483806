package detect

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/detect/simulate"
)

// seriesOf reads a simulated run at each step.
func seriesOf(ys []float64) Series {
	s := Series{Bytes: ys, Steps: make([]float64, len(ys))}
	for i := range ys {
		s.Steps[i] = float64(i + 1)
	}
	return s
}

// tolerated is what a family may have of false alarms or of leaks not found, in TestFamilies' few runs. The table in
// docs/accuracy.md, from thousands of runs, has the figures.
const (
	familyRuns    = 40
	wrongOfHealty = 0.1
	missedOfLeaks = 0.1
)

func TestFamilies(t *testing.T) {
	for _, f := range simulate.Families() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			wrong := 0.0
			for k := range uint64(familyRuns) {
				g := Judge(seriesOf(f.Run(rand.New(rand.NewPCG(k, 11)))))
				if f.Leak == (g.Verdict != Leak) {
					wrong += 1.0 / familyRuns
				}
			}
			if !f.Leak && wrong > wrongOfHealty || f.Leak && f.Seen && wrong > missedOfLeaks {
				t.Errorf("wrong about %.0f %% of %d runs", 100*wrong, familyRuns)
			}
		})
	}
}

// TestWhatWasFreedAtFirst: half a run of a thousand steps, with an early fall of what imports left. One that leads back
// to where the growth began is given back of that growth.
func TestWhatWasFreedAtFirst(t *testing.T) {
	run := func(freed float64) Series {
		r, s := rand.New(rand.NewPCG(1, 2)), Series{}
		for x := 1.0; x <= 500; x += 20 {
			y := 150e6 + 2.3e3*x + 1e3*r.NormFloat64()
			if x > 80 {
				y -= freed
			}
			s.Steps, s.Bytes = append(s.Steps, x), append(s.Bytes, y)
		}
		return s
	}
	if g := Judge(run(600e3)); g.Verdict != Leak || math.Abs(g.Rate-2.3e3) > 100 {
		t.Errorf("what is older was freed: %s", g)
	}
	if g := Judge(run(184e3)); g.Verdict == Leak {
		t.Errorf("it gave back what it had: %s", g)
	}
}

// TestBentByItsBeginning: a table of lists got its keys in the first epoch, and its lists grow ever after. So many
// blocks Python's allocator had in a run of test/accuracy's h079.
func TestBentByItsBeginning(t *testing.T) {
	s := scaled(recorded(t, "losses-by-sample.csv")[0], blockSize)
	if g := Judge(s); g.Verdict != Leak || g.Rate < 150*blockSize || g.Rate > 190*blockSize {
		t.Error(g)
	}
}

// TestInvariance: what unit memory is counted in, and what else the process holds, changes nothing; neither does where
// steps begin.
func TestInvariance(t *testing.T) {
	for _, f := range simulate.Families() {
		s := seriesOf(f.Run(rand.New(rand.NewPCG(5, 5))))
		want := Judge(s)
		shifted := Series{make([]float64, len(s.Steps)), make([]float64, len(s.Steps))}
		for i := range s.Steps {
			shifted.Steps[i], shifted.Bytes[i] = s.Steps[i]+12_345, s.Bytes[i]+8e9
		}
		got := Judge(shifted)
		if got.Verdict != want.Verdict || math.Abs(got.Rate-want.Rate) > 1e-3*math.Abs(want.Rate)+1 {
			t.Errorf("%s: %v, shifted %v", f.Name, want, got)
		}
		scaled := Judge(scaled(s, 16)) // material growth is an amount, so only upwards
		if want.Verdict == Leak && (scaled.Verdict != Leak || math.Abs(scaled.Rate-16*want.Rate) > 1e-3*16*want.Rate) {
			t.Errorf("%s: %v, sixteen times as much %v", f.Name, want, scaled)
		}
	}
}

func TestNoVerdictFromTooLittle(t *testing.T) {
	s := Series{}
	for i := range 5000 {
		s.Steps, s.Bytes = append(s.Steps, float64(i)), append(s.Bytes, 1e9+float64(i)*1e6)
	}
	for _, n := range []int{0, 1, 2, minFloors - 1, MinSteps / 2, MinSteps} {
		if g := Judge(Series{s.Steps[:n], s.Bytes[:n]}); g.Verdict != Undecided || g.Needs <= 0 {
			t.Errorf("%d steps: %v, needs %v", n, g, g.Needs)
		}
	}
	if g := Judge(Series{[]float64{0, 1000, 2000, 4000}, []float64{1e9, 2e9, 3e9, 4e9}}); g.Verdict != Undecided ||
		g.Needs <= 0 {
		t.Errorf("four readings: %v", g)
	}
	if g := Judge(s); g.Verdict != Leak {
		t.Errorf("5000 steps: %v", g)
	}
}

func TestOddInput(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	grow := Series{}
	for i := range 1000 {
		y := 1e9 + 1e6*float64(i)
		switch i % 7 {
		case 3:
			y = nan
		case 5:
			y = inf
		}
		grow.Steps, grow.Bytes = append(grow.Steps, float64(i)), append(grow.Bytes, y)
	}
	if g := Judge(grow); g.Verdict != Leak || math.Abs(g.Rate-1e6) > 1e4 {
		t.Errorf("with readings that were not taken: %v", g)
	}
	Judge(Series{[]float64{1, 2}, []float64{1}})
	Judge(Series{[]float64{nan, nan}, []float64{1, 2}})
	constant := Series{}
	for i := range 1000 {
		constant.Steps, constant.Bytes = append(constant.Steps, float64(i)), append(constant.Bytes, 5e9)
	}
	if g := Judge(constant); g.Verdict != Healthy {
		t.Errorf("constant: %v", g)
	}
	again := Series{append(append([]float64{}, grow.Steps...), constant.Steps...),
		append(append([]float64{}, grow.Bytes...), constant.Bytes...)}
	if g := Judge(again); g.Verdict != Healthy || g.N != 1000 {
		t.Errorf("steps counted anew: %v of %d", g, g.N)
	}
}

func FuzzJudge(f *testing.F) {
	f.Add([]byte{1, 2, 3, 200, 7, 9}, uint16(300), int64(1e9))
	f.Add([]byte{0}, uint16(2000), int64(-5))
	f.Fuzz(func(t *testing.T, raw []byte, n uint16, scale int64) {
		s := Series{}
		x, y := 0.0, 0.0
		for i := range min(int(n), 4000) {
			var b byte
			if len(raw) > 0 {
				b = raw[i%len(raw)]
			}
			x, y = x+float64(b%5), y+float64(int(b)-100)*float64(scale)/100
			s.Steps, s.Bytes = append(s.Steps, x), append(s.Bytes, y)
		}
		g := Judge(s)
		if g.Verdict == Leak && (!(g.Rate > 0) || !(g.Low <= g.Rate && g.Rate <= g.High) || g.End-g.Start < 0 ||
			g.N < minFloors) {
			t.Errorf("%v of %d readings", g, g.N)
		}
		if g.Verdict == Leak && s.clean().width() < MinSteps {
			t.Errorf("a leak within %v steps", s.clean().width())
		}
	})
}

func BenchmarkJudge100k(b *testing.B) {
	s := Series{}
	for i := range 100_000 {
		s.Steps, s.Bytes = append(s.Steps, float64(i)), append(s.Bytes, 1e9+100*float64(i)+1e6*math.Sin(float64(i)))
	}
	for b.Loop() {
		Judge(s)
	}
}
