package service

import (
	"context"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Leak judges the session as it is now. Nothing is stored: the collector keeps its own judgements.
func (s *Service) Leak(ctx context.Context, q api.LeakRequest) (detect.Report, error) {
	return s.judge(ctx, analyse.Options{Until: q.Until, Devices: q.Devices})
}

func (s *Service) judge(ctx context.Context, o analyse.Options) (detect.Report, error) {
	if err := s.drain(ctx); err != nil && ctx.Err() != nil {
		return detect.Report{}, err
	}
	o.Sources = s.Sources
	db, err := s.Open(ctx)
	if err != nil {
		return detect.Report{}, err
	}
	return analyse.Judge(ctx, db, o)
}

// Where lists the job's bytes by process and class.
func (s *Service) Where(ctx context.Context) (api.Where, error) { return s.WhereFrom(ctx, s) }

// Outcome returns the summary with the verdict in one line, for the end of a run. If judging fails, the line says why.
func (s *Service) Outcome(ctx context.Context) (api.Summary, error) {
	sum, err := s.Summary(ctx)
	if err != nil {
		return sum, err
	}
	report, err := s.judge(ctx, analyse.Options{Over: true}) // nothing more will come, whoever has recorded that yet
	if err != nil {
		sum.Verdict = "no verdict: " + err.Error()
		return sum, nil
	}
	sum.Verdict = report.Line()
	return sum, nil
}
