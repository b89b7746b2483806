package service

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// OOM predicts from the session's tables when the memory of the host and of each device runs out.
func (s *Service) OOM(ctx context.Context, q api.OOMRequest) (*monitor.Report, error) {
	tables := recorded.New(s)
	end, err := EndOf(s.S)
	if err != nil {
		return nil, fmt.Errorf("oom: %w", err)
	}
	tables.Live = end.Live
	w, err := monitor.New(ctx, tables, monitor.Options{Devices: q.Devices,
		Job: monitor.Job{Known: true, FromStart: !s.S.Meta.Attached, Over: !end.Live},
		OOM: monitor.OOMOptions{Threshold: cmp.Or(q.Threshold, forecast.DefaultThreshold),
			Critical: cmp.Or(q.Critical, forecast.DefaultCritical), Window: cmp.Or(q.Window,
				forecast.DefaultWindow*time.Second)}})
	if err != nil {
		return nil, fmt.Errorf("oom: %w", err)
	}
	if _, err := w.Tick(ctx); err != nil {
		return nil, fmt.Errorf("oom: %w", err)
	}
	if !end.Live {
		w.Over(end.KilledForMemory())
	} else if err := s.foretell(ctx, w); err != nil {
		return nil, fmt.Errorf("oom: %w", err)
	}
	return w.Report(monitor.What{Tool: "oom", Session: s.S.Meta.Name, Ended: end.Text, Now: time.Now()}), nil
}

// foretell tells the watch what the newest judgement says of the end of each memory.
func (s *Service) foretell(ctx context.Context, w *monitor.Watch) error {
	last, err := api.Ask(ctx, s, questions.LastFindings)
	for _, f := range last {
		told := f.Told()
		if told.Verdict != string(detect.Leak) || math.IsNaN(float64(told.Seconds)) || told.Seconds <= 0 {
			continue
		}
		device := monitor.Host
		if id, ok := strings.CutPrefix(string(told.Device), "cuda:"); ok {
			device = id
		}
		w.Foretell(monitor.Foretold{Device: device, Seconds: float64(told.Seconds), Low: known(told.Soonest, 0),
			High: known(told.Latest, math.Inf(1)), From: time.UnixMicro(f.Micros),
			Text: told.Name + " leaks (memgauge leak tells more)", Advice: told.Advice.List()})
	}
	return err
}

// known is a time, or another where it is not known.
func known(s model.Seconds, other float64) float64 {
	if math.IsNaN(float64(s)) {
		return other
	}
	return float64(s)
}
