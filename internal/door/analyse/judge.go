package analyse

import (
	"context"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Judge reads a session and judges it.
func Judge(ctx context.Context, from store.Querier, o Options) (detect.Report, error) {
	in, err := Load(ctx, from, o)
	if err != nil {
		return detect.Report{}, err
	}
	return detect.Run(in), nil
}

// Rows makes rows of a verdict, for memgauge.findings.
func Rows(r detect.Report, judgement int64, at time.Time) []model.Finding {
	rows := r.Documents()
	for i := range rows {
		rows[i].Time, rows[i].Judgement, rows[i].Run = at.UnixMicro(), judgement, string(r.Verdict)
	}
	return rows
}

// Same says whether a judgement differs from the one before only in figures.
func Same(a, b detect.Report) bool {
	if a.Verdict != b.Verdict || len(a.Findings) != len(b.Findings) {
		return false
	}
	for i, f := range a.Findings {
		g := b.Findings[i]
		if f.Verdict != g.Verdict || f.Memory != g.Memory || f.PID != g.PID || f.Device != g.Device ||
			f.Holder != g.Holder || f.Class != g.Class {
			return false
		}
	}
	return true
}
