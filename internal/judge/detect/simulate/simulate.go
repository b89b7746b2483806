// Package simulate makes series of memory whose truth is known: families of leaks and of healthy trainings, as a
// detector meets them at step ends. It is for tests and for the table in docs/accuracy.md; the program itself doesn't
// import it.
package simulate

import (
	"math"
	"math/rand/v2"
	"slices"
)

// MB is what sizes below are in.
const MB = 1e6

// Steps of a simulated run.
const Steps = 2000

// Family is a kind of run.
type Family struct {
	Name string
	Leak bool
	// Seen is false where the growth can't be told from the noise: below five times a floor's noise, or noise that all
	// but wanders off. Finding it isn't asked for; how often it is found is told.
	Seen bool
	// Rate is the truth, bytes a step; 0 of a healthy one.
	Rate float64
	make func(r *rand.Rand) func(t float64) float64
}

// Run gives the bytes at the end of each step.
func (f Family) Run(r *rand.Rand) []float64 {
	at := f.make(r)
	base := 1e9 + r.Float64()*1e10
	ys := make([]float64, Steps)
	for t := range ys {
		ys[t] = base + MB*at(float64(t))
	}
	return ys
}

type shape = func(t float64) float64

// plus adds shapes.
func plus(makes ...func(*rand.Rand) shape) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		var parts []shape
		for _, m := range makes {
			parts = append(parts, m(r))
		}
		return func(t float64) (sum float64) {
			for _, p := range parts {
				sum += p(t)
			}
			return sum
		}
	}
}

func fixed(f shape) func(*rand.Rand) shape { return func(*rand.Rand) shape { return f } }

func white(sd float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape { return func(float64) float64 { return sd * r.NormFloat64() } }
}

// lengths is a step end that still holds something of the batch, whose size varies.
func lengths(mean float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape { return func(float64) float64 { return mean * r.ExpFloat64() } }
}

func autoregressive(rho, sd float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		x := sd * r.NormFloat64()
		return func(float64) float64 {
			x = rho*x + sd*math.Sqrt(1-rho*rho)*r.NormFloat64()
			return x
		}
	}
}

func walk(sd float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		x := 0.0
		return func(float64) float64 { x += sd * r.NormFloat64(); return x }
	}
}

func line(rate, from float64) func(*rand.Rand) shape {
	return fixed(func(t float64) float64 { return rate * math.Max(0, t-from) })
}

func stairs(size, every float64) func(*rand.Rand) shape {
	return fixed(func(t float64) float64 { return size * math.Floor(t/every) })
}

// irregular leaks pieces of very different sizes, as a cache keyed by what never repeats.
func irregular(rate float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		x := 0.0
		return func(float64) float64 { x += rate * r.ExpFloat64(); return x }
	}
}

func warmup(size, tau float64) func(*rand.Rand) shape {
	return fixed(func(t float64) float64 { return size * (1 - math.Exp(-t/tau)) })
}

func bursts(size, every, length float64) func(*rand.Rand) shape {
	return fixed(func(t float64) float64 {
		if math.Mod(t, every) >= every-length {
			return size
		}
		return 0
	})
}

// jumps are rises that happen once each, anywhere.
func jumps(size float64, count int) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		at := make([]float64, count)
		for i := range at {
			at[i] = r.Float64() * Steps
		}
		return func(t float64) (sum float64) {
			for _, a := range at {
				if t >= a {
					sum += size
				}
			}
			return sum
		}
	}
}

// sawtooth grows and is given back; its period differs from run to run.
func sawtooth(size, longest float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		period := 40 + r.Float64()*(longest-40)
		return fixed(func(t float64) float64 { return size * math.Mod(t, period) / period })(r)
	}
}

// freed is what was there before the first step and is given back in the first hundred: by the first full collection.
func freed(size float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		at := 40 + 60*r.Float64()
		return func(t float64) float64 {
			if t < at {
				return size
			}
			return 0
		}
	}
}

// filling is a buffer with a bound, full after 5 to 70 % of the run.
func filling(size float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		full := Steps * (0.05 + 0.65*r.Float64())
		return func(t float64) float64 { return size * math.Min(1, t/full) }
	}
}

// firstSights is a cache of plans, each made when its shape is met first: of some shapes that are all as likely, or of
// ever rarer ones (Zipf), some of which are met at a step.
func firstSights(shapes int, rarer, perStep, size float64) func(*rand.Rand) shape {
	return func(r *rand.Rand) shape {
		weights, sum := make([]float64, shapes), 0.0
		for i := range weights {
			sum += math.Pow(float64(i+1), -rarer)
			weights[i] = sum
		}
		seen, count, due := make([]bool, shapes), 0.0, 0.0
		return func(float64) float64 {
			for due += perStep; due >= 1; due-- {
				i, _ := slices.BinarySearch(weights, r.Float64()*sum)
				if !seen[min(i, shapes-1)] {
					seen[min(i, shapes-1)] = true
					count++
				}
			}
			return size * count
		}
	}
}

// Families are all of them. Noise and sizes are MB.
func Families() []Family {
	quiet := white(2)
	return []Family{
		{"fixed shapes", false, true, 0, white(20)},
		{"variable lengths", false, true, 0, lengths(300)},
		{"warm-up +2 GB, τ 150", false, true, 0, plus(quiet, warmup(2000, 150))},
		{"slow warm-up +2 GB, τ 800", false, true, 0, plus(quiet, warmup(2000, 800))},
		{"log cache 300 ln(1+t/10)", false, true, 0,
			plus(quiet, fixed(func(t float64) float64 { return 300 * math.Log1p(t/10) }))},
		{"first sights, 40 √t", false, true, 0, plus(quiet,
			fixed(func(t float64) float64 { return 40 * math.Sqrt(t) }))},
		{"buffer that fills, 500 MB", false, true, 0, plus(quiet, filling(500))},
		{"plans of 256 shapes", false, true, 0, plus(quiet, firstSights(256, 0, 1, 2))},
		{"plans of 1000 shapes", false, true, 0, plus(quiet, firstSights(1000, 0, 1, 1))},
		{"plans of 1000 shapes, ever rarer", false, true, 0, plus(white(.2), firstSights(1000, 0.7, 2, .5))},
		{"words from a long tail", false, true, 0, plus(white(.2), firstSights(20000, 1, 20, .01))},
		{"evaluation bursts +4 GB", false, true, 0, plus(quiet, bursts(4000, 400, 40))},
		{"AR(1) ρ .98, sd 100", false, true, 0, autoregressive(.98, 100)},
		{"random walk, sd 5 a step", false, true, 0, walk(5)},
		{"one-off +3 GB", false, true, 0, plus(quiet, jumps(3000, 1))},
		{"four one-offs", false, true, 0, plus(quiet, jumps(300, 4))},
		{"five one-offs", false, true, 0, plus(quiet, jumps(300, 5))},
		{"sawtooth 800 MB", false, true, 0, plus(quiet, sawtooth(800, 500))},
		{"sawtooth 0.9 MB", false, true, 0, plus(white(.003), freed(.6), sawtooth(.9, 900))},
		{"warm-up, one-off, AR(1)", false, true, 0, plus(warmup(1000, 100), jumps(500, 1), autoregressive(.95, 20))},

		{"0.05 MB/step", true, true, .05 * MB, plus(quiet, line(.05, 0))},
		{"0.5 MB/step", true, true, .5 * MB, plus(white(20), line(.5, 0))},
		{"5 MB/step", true, true, 5 * MB, plus(white(20), line(5, 0))},
		{"0.5 MB/step, variable lengths 300 MB", true, true, .5 * MB, plus(lengths(100), line(.5, 0))},
		{"1 MB/step from 1000", true, true, MB, plus(white(20), line(1, 1000))},
		{"2 MB/step from 1700", true, true, 2 * MB, plus(white(20), line(2, 1700))},
		{"100 MB each 100 steps", true, true, MB, plus(quiet, stairs(100, 100))},
		{"100 MB each 400 steps", true, true, MB / 4, plus(quiet, stairs(100, 400))},
		{"1 MB each 37 steps", true, true, MB / 37, plus(white(1), stairs(1, 37))},
		{"irregular 0.5 MB/step", true, true, .5 * MB, plus(quiet, irregular(.5))},
		{"0.5 MB/step, AR(1) ρ .9 sd 50", true, true, .5 * MB, plus(autoregressive(.9, 50), line(.5, 0))},
		{"0.5 MB/step, AR(1) ρ .98 sd 100", true, false, .5 * MB, plus(autoregressive(.98, 100), line(.5, 0))},
		{"0.5 MB/step after warm-up 2 GB, τ 150", true, true, .5 * MB, plus(quiet, warmup(2000, 150), line(.5, 0))},
		{"0.5 MB/step and one-off 500 MB", true, true, .5 * MB, plus(quiet, jumps(500, 1), line(.5, 0))},
		{"0.5 MB/step on sawtooth 100 MB", true, true, .5 * MB, plus(quiet, sawtooth(100, 200), line(.5, 0))},
		{"3 KB/step, 0.6 MB freed at first", true, true, .003 * MB, plus(white(.003), freed(.6), line(.003, 0))},
		{"0.2 MB/step, noise sd 300", true, false, .2 * MB, plus(white(300), line(.2, 0))},
		{"0.5 MB/step, random walk sd 5", true, false, .5 * MB, plus(walk(5), line(.5, 0))},
	}
}
