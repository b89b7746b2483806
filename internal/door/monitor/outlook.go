package monitor

import (
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// outlook forecasts from the whole history.
func (t *Track) outlook(o OOMOptions) forecast.Forecast {
	job := forecast.Job{Window: o.Window.Seconds(), Known: t.of.Known && !t.of.Over, FromStart: t.of.FromStart,
		Pressed: t.Risk.Usage >= o.Threshold, Torch: t.of.Torch != nil && t.of.Torch()}
	return forecast.Outlook(t.History.readings(), float64(t.History.Last.Total), job)
}

// Rushes reports that a device, at the pace of the last interval, is full within a few more intervals.
func (w *Watch) Rushes(interval time.Duration) bool {
	const few = 8
	return w.fullWithin(interval, few*interval)
}

// Nears reports that a device should be read more often than every few seconds: at its last pace it is full within two
// minutes, of which half must be enough to see a trend.
func (w *Watch) Nears() bool { return w.fullWithin(4*time.Second, 2*time.Minute) }

// fullWithin reports whether a device, at its pace over the last stretch, is full within some time.
func (w *Watch) fullWithin(stretch, left time.Duration) bool {
	for _, t := range w.Devices {
		s := t.History.Samples()
		if len(s) < 2 || t.Lost != "" {
			continue
		}
		last, before := s[len(s)-1], s[len(s)-2]
		for i := len(s) - 3; i >= 0 && last.Time.Sub(before.Time) < stretch/2; i-- {
			before = s[i]
		}
		rise, took := float64(last.Used-before.Used), last.Time.Sub(before.Time).Seconds()
		if rise > 0 && float64(last.Total-last.Used)/rise*took < left.Seconds() {
			return true
		}
	}
	return false
}
