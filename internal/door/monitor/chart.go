package monitor

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/base/chart"
	"github.com/memgauge/memgauge/internal/base/units"
)

// maxPanels of a picture: of more devices, those with the highest usage are drawn.
const maxPanels = 8

// Chart draws each device's memory against its limit, with the events.
func (w *Watch) Chart(title string) chart.Chart {
	c := chart.Chart{Title: title, Note: w.note1()}
	for _, t := range w.Devices {
		if t.History.Len() > 0 && len(c.Panels) < maxPanels {
			c.Panels = append(c.Panels, t.panel(w))
		}
	}
	for _, e := range w.Events {
		c.Events = append(c.Events, chart.Event{Seconds: e.Time.Sub(w.Started).Seconds(), Text: clip(e.Text, 50),
			Bad: e.Bad})
	}
	return c
}

func (w *Watch) note1() string {
	for _, t := range w.Devices {
		if t.Foreseen() {
			return fmt.Sprintf("%s: growing by %s/min, OOM expected in %s (%s to %s)", t.Device.Label(),
				units.Bytes(t.Risk.Growth*60),
				Span(t.Risk.Seconds), bare(t.Risk.SecondsLow), bare(t.Risk.SecondsHigh))
		}
	}
	return fmt.Sprintf("from %s UTC, %s", w.Started.UTC().Format("2006-01-02 15:04:05"), Span(w.Seconds()))
}

func (t *Track) panel(w *Watch) chart.Panel {
	used, reserved := chart.Series{Name: "in use", Area: true}, chart.Series{Name: "with caches"}
	differs := false
	for _, s := range t.History.samples {
		x := s.Time.Sub(w.Started).Seconds()
		if s.High > s.Low {
			used.X, used.Y = append(used.X, x), append(used.Y, float64(s.Low))
		}
		used.X, used.Y = append(used.X, x), append(used.Y, float64(s.High))
		reserved.X, reserved.Y = append(reserved.X, x), append(reserved.Y, float64(s.Reserved))
		differs = differs || s.Reserved > s.Used+s.Used/50
	}
	last := t.History.Last
	p := chart.Panel{Title: t.Device.Label() + ": " + t.Device.Name, Series: []chart.Series{used},
		Levels: []chart.Level{{Name: last.Kind + " limit", Value: float64(last.Total), Alarm: true}}}
	if differs {
		p.Series = append(p.Series, reserved)
	}
	if w.o.OOM.Threshold > 0 {
		p.Levels = append(p.Levels, chart.Level{Name: fmt.Sprintf("warns at %.0f %%,", w.o.OOM.Threshold),
			Value: float64(last.Total) * w.o.OOM.Threshold / 100})
	}
	if r := &t.Risk; t.Foreseen() && r.Seconds < 2*w.Seconds() {
		now := last.Time.Sub(w.Started).Seconds()
		p.Series = append(p.Series, chart.Series{Name: "forecast", Thin: true, X: []float64{now, now + r.Seconds},
			Y: []float64{float64(last.Used), float64(last.Total)}})
	}
	return p
}

// BlocksChart draws the holes over time, and their present sizes.
func (w *Watch) BlocksChart(title string) chart.Chart {
	c := chart.Chart{Title: title}
	for _, t := range w.Devices {
		looks := t.Blocks.Looks
		if len(looks) == 0 {
			continue
		}
		s := looks[len(looks)-1].Sum()
		c.Note = fmt.Sprintf("%s: %s of %s lie in %s holes; a defragmentation would give back %s", t.Device.Label(),
			units.Bytes(s.Holes.Bytes),
			units.Bytes(s.Held), units.Count(s.Holes.Count), units.Bytes(s.Reclaimable))
		if len(looks) > 1 {
			c.Panels = append(c.Panels, blocksOverTime(t, looks))
		}
		bars := chart.Panel{Title: t.Device.Label() + ": bytes in holes, by the size of the hole"}
		for _, class := range s.Holes.Sizes {
			bars.Bars = append(bars.Bars, chart.Bar{Label: units.Bytes(class.From).String(),
				Value: float64(class.Bytes)})
		}
		if len(bars.Bars) > 0 {
			c.Panels = append(c.Panels, bars)
		}
	}
	return c
}

func blocksOverTime(t *Track, looks []Look) chart.Panel {
	held, used, holes := chart.Series{Name: "held by the allocator"}, chart.Series{Name: "in use", Area: true},
		chart.Series{Name: "in holes"}
	for i := range looks {
		x, s := looks[i].Time.Sub(looks[0].Time).Seconds(), looks[i].Sum()
		for _, at := range []struct {
			series *chart.Series
			value  int64
		}{{&held, s.Held}, {&used, s.InUse}, {&holes, s.Holes.Bytes}} {
			at.series.X, at.series.Y = append(at.series.X, x), append(at.series.Y, float64(at.value))
		}
	}
	return chart.Panel{Title: t.Device.Label() + ": the allocator's memory", Series: []chart.Series{used, held, holes}}
}

// clip cuts what has no room beside a line of the picture; a report has the whole text.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}
