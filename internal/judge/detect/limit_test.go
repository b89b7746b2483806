package detect

import (
	"math"
	"testing"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// filling is a host of 64 GiB that is full in so many seconds, read each second for two minutes.
func filling(left float64) Limit {
	const size, rate = 64 << 30, 50 << 20
	l := Limit{Name: "host 64 GiB", Bytes: size}
	for i := range 120 {
		l.Used = size - rate*(left+float64(119-i))
		l.Readings = append(l.Readings, forecast.Reading{Time: float64(i), Step: float64(i+1) * 10, Floor: l.Used,
			Peak: l.Used})
	}
	return l
}

// TestATrickleBesideGrowth: a trickle is no leak because something else fills the memory; a leak's time is that of the
// whole.
func TestATrickleBesideGrowth(t *testing.T) {
	for rate, want := range map[float64]Verdict{1500: Healthy, 1e6: Leak} {
		p := Process{PID: 7, Rank: -1, Pace: 0.1, Last: 1200, Heap: growing(1200, rate), Anon: growing(1200, 0)}
		r := Run(Input{Steps: 1200, Processes: []Process{p}, Host: filling(100),
			Job: forecast.Job{Window: forecast.DefaultWindow, Known: true}})
		f := r.Findings[0]
		if f.Memory != Heap || f.Verdict != want {
			t.Errorf("%g B a step: %s of the %s: %s", rate, f.Verdict, f.Memory, f.Reason)
		}
		if want == Leak && (math.Abs(f.Seconds-100) > 5 || math.Abs(f.AtStep-2200) > 50 || f.SecondsLow > 100 ||
			f.SecondsHigh < 100) {
			t.Errorf("%.0f s (%.0f to %.0f), at step %.0f", f.Seconds, f.SecondsLow, f.SecondsHigh, f.AtStep)
		}
	}
}
