package monitor

import (
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// Foretold is what the judging of leaks says of the end of a device's memory.
type Foretold struct {
	Device             string // Host, or the device's id
	Seconds, Low, High float64
	From               time.Time // from when on they count
	Text               string    // which memory leaks
	Advice             []string
}

// Foretell takes over the end that a leak leads to where readings of the whole memory have shown none: they need
// longer, since all that comes and goes on a machine is in them. One memory then has one forecast, whoever is asked.
func (w *Watch) Foretell(f Foretold) {
	for _, t := range w.Devices {
		if t.Device.ID == f.Device && t.History.Len() > 0 {
			t.foretell(f, w.o.OOM)
		}
	}
}

func (t *Track) foretell(f Foretold, o OOMOptions) {
	last := t.History.Last
	gone := last.Time.Sub(f.From).Seconds()
	left := f.Seconds - gone
	if t.Risk.Predicted || t.of.Over || left <= 0 || o.Threshold <= 0 {
		return
	}
	r := &t.Risk
	r.Forecast = forecast.Forecast{Shape: forecast.Growing, Reason: f.Text, Predicted: true, Seconds: left,
		SecondsLow: max(0, f.Low-gone), SecondsHigh: max(left, f.High-gone), Growth: float64(last.Free()) / left,
		Confidence: foretoldConfidence}
	if left <= time.Minute.Seconds() {
		r.WithinMinute = foretoldConfidence
	}
	r.Level = max(level(r, o), Medium) // a leak is no chance growth, however far its end
	r.Worst = max(r.Worst, r.Level)
	r.Advice = f.Advice
}

// foretoldConfidence is that of the interval of a leak's rate.
const foretoldConfidence = 0.95
