package api

import (
	"context"

	"github.com/memgauge/memgauge/internal/analyse"
	"github.com/memgauge/memgauge/internal/detect"
)

// LeakRequest asks for a verdict on the session's memory.
type LeakRequest struct {
	Until   int64    `json:"until"`   // as it was when this step had ended; 0: now
	Devices []string `json:"devices"` // only these; none: all
}

// Leak judges the session as it is now. Nothing is stored: the collector keeps its own judgements.
func (s *Service) Leak(ctx context.Context, q LeakRequest) (detect.Report, error) {
	if err := s.drain(ctx); err != nil && ctx.Err() != nil {
		return detect.Report{}, err
	}
	return analyse.Judge(ctx, s.DB, analyse.Options{Until: q.Until, Devices: q.Devices})
}

// Outcome is a summary with the verdict in a line, for the end of a run. A verdict that can't be given says why.
func (s *Service) Outcome(ctx context.Context) (Summary, error) {
	sum, err := s.Summary(ctx)
	if err != nil {
		return sum, err
	}
	report, err := s.Leak(ctx, LeakRequest{})
	if err != nil {
		sum.Verdict = "no verdict: " + err.Error()
		return sum, nil
	}
	sum.Verdict = report.Line()
	return sum, nil
}
