package service

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/monitor/recorded"
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
	}
	return w.Report(monitor.What{Tool: "oom", Session: s.S.Meta.Name, Ended: end.Text, Now: time.Now()}), nil
}
