package monitor

import (
	"fmt"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/forecast"
)

const (
	// firstSteps of a training still set things up: optimizer state, caches, workers.
	firstSteps = 3
	// startWindows is how many windows a start may take where no steps tell its end. Measured: importing torch and building
	// a model takes 3 s, and 20 s on a machine with eight times as many runnable processes as cores.
	startWindows = 2
)

// tails are how many windows make the young part of a long history: growth that began minutes ago is no straight part of
// what was seen in a week.
var tails = []float64{8, 2}

// outlook forecasts from the growth that has shown itself to be more than a start. A start looks like a leak: it grows in
// a line, and nothing but its end tells it. So growth counts once it has gone on for a whole window, past the start. Only
// where usage alone is a risk already there is no time to wait for that.
func (t *Track) outlook(o OOMOptions) forecast.Forecast {
	readings, limit := t.History.readings(), float64(t.History.Last.Total)
	window := o.Window.Seconds()
	if t.Risk.Usage >= o.Threshold {
		if f := ahead(readings, limit, window); f.Sure() {
			return f
		}
		return forecast.Run(forecast.Points(readings), limit)
	}
	past := pastStart(readings, t.fromStart, window)
	if span(past) < window {
		reason := "too short a time"
		if span(readings) >= window {
			reason += ": so far it may be the start"
		}
		return forecast.Forecast{Shape: forecast.Unclear, Reason: reason}
	}
	f := ahead(past, limit, window)
	if f.Predicted && f.Watched < window {
		return forecast.Forecast{Shape: forecast.Unclear, Amplitude: f.Amplitude,
			Reason: fmt.Sprintf("it has grown for %s only, as something that is loaded does", Span(f.Watched))}
	}
	return f
}

// ahead forecasts from all that was seen; where that tells nothing sure, from the last windows alone, if memory has left
// what it kept within before: a sawtooth's rise among its like is nothing new.
func ahead(readings []forecast.Reading, limit, window float64) forecast.Forecast {
	f := forecast.Run(forecast.Points(readings), limit)
	if f.Sure() || len(readings) == 0 {
		return f
	}
	last := readings[len(readings)-1]
	for _, windows := range tails {
		cut := slices.IndexFunc(readings, func(r forecast.Reading) bool { return r.Time >= last.Time-windows*window })
		if cut <= 0 || last.Floor <= highest(readings[:cut]) {
			continue
		}
		if young := forecast.Run(forecast.Points(readings[cut:]), limit); young.Sure() {
			return young
		}
	}
	return f
}

func highest(readings []forecast.Reading) float64 {
	top := readings[0].Peak
	for _, r := range readings {
		top = max(top, r.Peak)
	}
	return top
}

func span(readings []forecast.Reading) float64 {
	if len(readings) == 0 {
		return 0
	}
	return readings[len(readings)-1].Time - readings[0].Time
}

// pastStart leaves out the job's start: what was before the first steps of a training; the first windows of a job that
// makes no steps, or none yet.
func pastStart(readings []forecast.Reading, fromStart bool, window float64) []forecast.Reading {
	past := func(r forecast.Reading) bool { return r.Step >= firstSteps }
	if readings[len(readings)-1].Step == 0 {
		if !fromStart {
			return readings
		}
		past = func(r forecast.Reading) bool { return r.Time >= startWindows*window }
	}
	if i := slices.IndexFunc(readings, past); i >= 0 {
		return readings[i:]
	}
	return nil
}

// Rushes says that a device which goes on as in the last interval is full within a few more.
func (w *Watch) Rushes(interval time.Duration) bool {
	const few = 8
	for _, t := range w.Devices {
		s := t.History.Samples()
		if len(s) < 2 || t.Lost != "" {
			continue
		}
		last, before := s[len(s)-1], s[len(s)-2]
		for i := len(s) - 3; i >= 0 && last.Time.Sub(before.Time) < interval/2; i-- {
			before = s[i]
		}
		rise, took := float64(last.Used-before.Used), last.Time.Sub(before.Time).Seconds()
		if rise > 0 && float64(last.Total-last.Used)/rise*took < few*interval.Seconds() {
			return true
		}
	}
	return false
}
