package forecast

import (
	"fmt"
	"math"
	"slices"

	"github.com/memgauge/memgauge/internal/base/units"
)

// Job is what is known about the job whose memory is forecast.
type Job struct {
	Window    float64 // s: growth that has lasted so long counts, whatever its cause
	Known     bool    // the readings are those of one job, and not of a machine on which anything may start
	FromStart bool    // they begin with the start of the job
	Torch     bool    // PyTorch is loaded: a training's start ends with its third step
	Pressed   bool    // usage alone is a risk already: there is no time to wait for certainty
}

// Defaults for a job.
const (
	DefaultWindow    = 30 // s
	DefaultThreshold = 85 // percent of the limit that is a risk by itself
	DefaultCritical  = 95 // percent of the limit at which usage is critical
)

const (
	// firstSteps of a training still set things up: optimizer state, caches, workers.
	firstSteps = 3
	// startWindows is how many windows a start may take if no steps show its end. Measured: importing torch and
	// building a model takes 3 s, and 20 s on a machine with eight times as many runnable processes as cores.
	startWindows = 2
	// soon is the remaining time, in s, within which growth younger than a window counts too.
	soon = 60
	// proven is the least time, in s, that such growth must have lasted, and youngReach is for how many times as long
	// it is trusted. Measured on eight starts (TestNoAlarmAtRecordedStarts): a training's memory grows linearly for 3.6
	// s after its third step, and then stops.
	proven     = 3
	youngReach = 2
	// newPart is the least share of the whole series, past the start, that such growth must have lasted: a job that has
	// run for an hour and begins to grow may be loading something.
	newPart = 1. / 3
	// libraries that are being loaded show in the mapped files: at least so many bytes between two readings.
	loading = 1 << 20
)

// tails are how many windows make the young part of a long history: growth that began minutes ago is no straight part
// of a week's readings.
var tails = []float64{8, 2}

// Outlook forecasts only from growth that is more than a start. A start looks like a leak: it grows linearly, and only
// its end distinguishes it. So growth counts once it has lasted a whole window past the start. It counts sooner if it
// makes up a third of the series, the end is near, and it is too straight to be a warm-up that ends before the limit.
// Where usage alone is a risk, there is no time to wait for either.
func Outlook(readings []Reading, limit float64, j Job) Forecast {
	past := pastStart(readings, j)
	if j.Pressed {
		return pressed(readings, past, limit, j.Window)
	}
	if len(past) == 0 {
		return Forecast{Shape: Unclear, Reason: "so far it may be the start"}
	}
	f := ahead(past, limit, j.Window)
	young := j.Known && f.Seconds <= min(soon, youngReach*f.Watched) && f.Watched >= proven &&
		f.Watched >= newPart*span(past)
	switch {
	case !f.Predicted, f.Watched >= j.Window:
		return f
	case young && f.clears && f.Sure():
		return f.doubted(f.Watched / j.Window)
	}
	return Forecast{Shape: Unclear, Amplitude: f.Amplitude,
		Reason: fmt.Sprintf("it has grown for %.0f s only, as something that is loaded does", f.Watched)}
}

// doubted lowers the probabilities of growth that is younger than a window: loading ends by itself. Our guess is that
// half of the growth that is some seconds old does; that share is not measured.
func (f Forecast) doubted(age float64) Forecast {
	real := 0.5 + 0.5*min(1, age)
	for _, p := range []*float64{&f.Within1, &f.Within10, &f.Within100, &f.WithinMinute, &f.Confidence} {
		*p *= real
	}
	f.Reason += ", so far for less than a window"
	return f
}

// pressed takes the first answer that exists: from the past without the start, from all readings, from the last
// readings alone.
func pressed(readings, past []Reading, limit, window float64) Forecast {
	for _, part := range [][]Reading{past, readings} {
		if f := ahead(part, limit, window); f.Sure() {
			return f
		}
	}
	f := Run(readings, limit)
	if f.Predicted || f.Shape == Released || f.Shape == Saturating {
		return f
	}
	if rough, ok := lastRise(readings, limit); ok {
		rough.Amplitude = f.Amplitude
		return rough
	}
	return f
}

// lastRise is what can be predicted without a trend when little room is left: growth at the pace of the last readings.
// It is wrong by a factor of three in one case of ten.
func lastRise(readings []Reading, limit float64) (Forecast, bool) {
	if len(readings) < 4 {
		return Forecast{}, false
	}
	end := readings[len(readings)-1]
	for share := 1.; share > 0.02; share /= 2 { // the longest stretch that grew
		part := since(readings, end.Time-share*span(readings))
		if len(part) < 4 {
			break
		}
		half := len(part) / 2
		early, late := lowest(part[:half]), lowest(part[half:])
		rise, took := late.Floor-early.Floor, late.Time-early.Time
		if rise < 2e-3*limit || took <= 0 || lowest(part[len(part)-max(2, len(part)/4):]).Floor < late.Floor {
			continue
		}
		rate := rise / took
		left := max(0, limit-end.Floor) / rate
		const off = 4 // low enough that nobody takes it for certain
		return Forecast{Shape: Growing,
			Reason: fmt.Sprintf("it grew by %s in the last %.0f s; that is all there is to go by", units.Bytes(rise),
				took), Growth: rate, GrowthLow: rate / off, GrowthHigh: rate * off, Predicted: true, Seconds: left,
			SecondsLow: left / off, SecondsHigh: left * off, Confidence: 0.25}, true
	}
	return Forecast{}, false
}

func lowest(readings []Reading) Reading {
	return slices.MinFunc(readings, func(a, b Reading) int { return int(math.Copysign(1, a.Floor-b.Floor)) })
}

// ahead forecasts from all readings. If they give nothing certain, it forecasts from the last windows alone, provided
// that memory has left its previous range: one more rise of a sawtooth is nothing new.
func ahead(readings []Reading, limit, window float64) Forecast {
	f := Run(readings, limit)
	if f.Sure() || len(readings) == 0 {
		return f
	}
	last := readings[len(readings)-1]
	for _, windows := range tails {
		young := since(readings, last.Time-windows*window)
		before := readings[:len(readings)-len(young)]
		if len(before) == 0 || last.Floor <= highest(before) {
			continue
		}
		if y := Run(young, limit); y.Sure() {
			return y
		}
	}
	return f
}

func highest(readings []Reading) float64 {
	top := readings[0].Peak
	for _, r := range readings {
		top = max(top, r.Peak)
	}
	return top
}

func span(readings []Reading) float64 {
	if len(readings) == 0 {
		return 0
	}
	return readings[len(readings)-1].Time - readings[0].Time
}

// pastStart removes the job's start. A training's start ends with its third step. For a job without steps, or before
// the first: where PyTorch is loaded, the start may take two windows; otherwise it ends when no more libraries are
// loaded.
func pastStart(readings []Reading, j Job) []Reading {
	if len(readings) == 0 {
		return nil
	}
	begin := readings[0].Time
	if readings[len(readings)-1].Step > 0 {
		return from(readings, func(r Reading) bool { return r.Step >= firstSteps })
	}
	if !j.FromStart {
		return readings
	}
	late := func(r Reading) bool { return r.Time >= begin+startWindows*j.Window }
	if j.Torch {
		return from(readings, late)
	}
	loaded := 0
	for i := 1; i < len(readings) && !late(readings[i]); i++ {
		if readings[i].Mapped > readings[loaded].Mapped+loading {
			loaded = i
		}
	}
	return readings[loaded:]
}

func from(readings []Reading, begins func(Reading) bool) []Reading {
	if i := slices.IndexFunc(readings, begins); i >= 0 {
		return readings[i:]
	}
	return nil
}
