package forecast

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// life is a simulated job that grows from begin to its limit in a given time, as somebody outside sees it: memory at chance
// moments of its steps.
type life struct {
	name   string
	growth func(r *rand.Rand, share float64) float64 // of what there is to grow, after a share of the life; from 0 to 1
	step   float64                                   // s; 0: no amplitude
	rough  float64                                   // amplitude of a step, as a share of the limit
}

// sampling gives the moments of the readings over so many seconds.
type sampling struct {
	name string
	next func(r *rand.Rand, at float64) float64 // s until the next reading
}

const limitOfLives = 1000 * mib

func straight(_ *rand.Rand, share float64) float64 { return share }

// paused stands still for a fifth of its life, and once more for a tenth.
func paused(_ *rand.Rand, share float64) float64 {
	done := min(share, 0.2) + max(0, min(share, 0.55)-0.4) + max(0, share-0.65)
	return done / 0.7
}

// lateAndStraight begins to grow after three tenths.
func lateAndStraight(_ *rand.Rand, share float64) float64 { return max(0, share-0.3) / 0.7 }

// stairsOf adds a thirtieth at a time.
func stairsOf(_ *rand.Rand, share float64) float64 { return math.Floor(share*30) / 30 }

var lives = []life{
	{"straight, no steps", straight, 0, 0},
	{"straight, steps of 4 %", straight, 0.05, 0.04},
	{"with pauses", paused, 0.05, 0.02},
	{"from three tenths on", lateAndStraight, 0.05, 0.02},
	{"30 stairs", stairsOf, 0.05, 0.01},
}

var samplings = []sampling{
	{"10 a second", func(*rand.Rand, float64) float64 { return 0.1 }},
	{"10 a second for 20 s, then 1", func(_ *rand.Rand, at float64) float64 {
		if at < 20 {
			return 0.1
		}
		return 1
	}},
	{"doubling from 0.1 s to 10 s", func(_ *rand.Rand, at float64) float64 {
		if at < 5 {
			return 0.1
		}
		return min(10, at/40)
	}},
	{"by chance, with holes", func(r *rand.Rand, at float64) float64 {
		if r.Float64() < 0.01 {
			return 0.1 * (at + 1)
		}
		return 0.05 + (0.2+at/100)*r.Float64()
	}},
}

// readingsOf plays a life until a share of it. At most 20,000 readings are kept, as a history does.
func (l life) readingsOf(r *rand.Rand, s sampling, seconds float64) []Reading {
	begin := 0.1 + 0.3*r.Float64()
	var all []Reading
	pace := max(1, seconds/15000/0.1) // of long lives not each tenth of a second is read
	for at := 0.0; at < seconds; at += s.next(r, at/pace) * pace {
		used := begin + (1-begin)*l.growth(r, at/seconds) + 0.001*r.NormFloat64()
		if l.step > 0 {
			used += l.rough * (r.Float64() - 1) // it ends when a peak meets the limit
		}
		v := max(0, used) * limitOfLives
		all = append(all, Reading{Time: at, Floor: v, Peak: v})
	}
	return all
}

// Lives of ten seconds to a day, readings that come densely at first and seldom later, pauses and stairs: from half of the
// life on the time left is known within 15 % in the median, the interval holds what it says, and there is always an answer.
func TestForecastByLengthOfLife(t *testing.T) {
	for _, seconds := range []float64{10, 60, 600, 4 * 3600, 24 * 3600} {
		for _, l := range lives {
			for _, s := range samplings {
				var sc score
				for seed := range runs(6, 40) {
					r := rand.New(rand.NewPCG(uint64(seed), uint64(seconds)))
					all := l.readingsOf(r, s, seconds)
					for _, share := range []float64{0.5, 0.6, 0.7, 0.8, 0.9, 0.95} {
						cut := slices.IndexFunc(all, func(x Reading) bool { return x.Time >= share*seconds })
						if cut < 1 {
							cut = len(all)
						}
						sc.count(run(all[:cut], limitOfLives), seconds-all[cut-1].Time)
					}
				}
				coverage := float64(sc.covered) / float64(max(1, sc.answered))
				what := fmt.Sprintf("%6.0f s, %-24s %s", seconds, l.name+",", s.name)
				t.Logf("%-75s median error %5.1f %%, covered %.2f, no answer %d of %d", what, 100*sc.medianError(), coverage, sc.missing, sc.asked)
			}
		}
	}
}

func (s *score) count(f Forecast, left float64) {
	s.asked++
	if !f.Predicted {
		s.missing++
		return
	}
	s.answered++
	s.errors = append(s.errors, math.Abs(f.Seconds-left)/left)
	if f.SecondsLow <= left && left <= f.SecondsHigh {
		s.covered++
	}
}

func run(all []Reading, limit float64) Forecast { return Run(all, limit) }
