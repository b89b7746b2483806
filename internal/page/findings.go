package page

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/chart"
	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/units"
)

// maxJudged findings are drawn, leaks first, as the report has them.
const maxJudged = 4

// drawFindings draws each memory that leaks or is undecided over the steps: its readings, and the fitted line with its
// interval.
func (d *Document) drawFindings(g *gatherer, r detect.Report) {
	for i := range r.Findings {
		f := &r.Findings[i]
		sql := Readings(f)
		if len(d.judged) == maxJudged || f.Verdict == detect.Healthy || f.ByTime || sql == "" {
			continue
		}
		var rows []struct {
			Step  float64 `json:"step"`
			Bytes float64 `json:"bytes"`
		}
		fill(g, &rows, sql)
		if len(rows) < 2 {
			continue
		}
		s := chart.Series{Name: f.Name()}
		for _, row := range rows {
			s.X, s.Y = append(s.X, row.Step), append(s.Y, row.Bytes)
		}
		p := chart.Panel{Title: fmt.Sprintf("%s: %s", f.Name(), f.Verdict), Series: []chart.Series{s}}
		if f.Verdict == detect.Leak {
			p.Series = append(p.Series, trend(f))
		}
		d.judged = append(d.judged, chart.Chart{Across: "step", Begin: s.X[0], Panels: []chart.Panel{p}})
	}
}

// trend is the line from the step at which the growth begins, with the fan of the rates that fit as well.
func trend(f *detect.Finding) chart.Series {
	from := f.Level - f.Rate*(f.End-f.Start)
	s := chart.Series{Name: fmt.Sprintf("%s a step (95 %%: %s to %s)", units.Bytes(f.Rate), units.Bytes(f.Low),
		units.Bytes(f.High)), Thin: true}
	for _, step := range []float64{f.Start, f.End} {
		s.X, s.Y = append(s.X, step), append(s.Y, from+f.Rate*(step-f.Start))
		s.Low, s.High = append(s.Low, from+f.Low*(step-f.Start)), append(s.High, from+f.High*(step-f.Start))
	}
	return s
}

// Readings is the statement that reads a memory over the steps; "" where none can.
func Readings(f *detect.Finding) string {
	const (
		atSteps = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.steps
			WHERE pid = %[1]d AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		onDevice = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.step_devices
			WHERE pid = %[1]d AND device = '%[3]s' AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		// Readings by time are assigned to the steps of the process that makes the most.
		byTime = `WITH trainer AS (SELECT pid FROM python.steps GROUP BY pid ORDER BY max(step) DESC LIMIT 1),
			done AS (SELECT ts, max(step)::DOUBLE AS step FROM python.steps WHERE pid = (SELECT pid FROM trainer)
				GROUP BY ts)
			SELECT d.step, m.%[2]s::DOUBLE AS bytes FROM process.memory m ASOF JOIN done d ON d.ts <= m.ts
			WHERE m.pid = %[1]d AND m.%[2]s IS NOT NULL ORDER BY m.ts`
	)
	switch f.Memory {
	case detect.Heap:
		return fmt.Sprintf(atSteps, f.PID, "heap_in_use")
	case detect.Private:
		return fmt.Sprintf(atSteps, f.PID, "anon - heap_held")
	case detect.Anon:
		return fmt.Sprintf(atSteps, f.PID, "anon")
	case detect.Device:
		return fmt.Sprintf(onDevice, f.PID, "allocated", f.Device)
	case detect.Reserved:
		return fmt.Sprintf(onDevice, f.PID, "reserved", f.Device)
	case detect.Worker:
		return fmt.Sprintf(byTime, f.PID, "anon")
	case detect.Shared:
		return fmt.Sprintf(byTime, f.PID, "shmem")
	case detect.Mapped:
		return fmt.Sprintf(byTime, f.PID, "file")
	}
	return ""
}
