package analyse

import (
	"context"
	"math"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/store"
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
	rows := make([]model.Finding, 0, len(r.Findings))
	for _, f := range r.Findings {
		row := model.Finding{Time: at.UnixMicro(), Judgement: judgement, Run: string(r.Verdict),
			Verdict: string(f.Verdict), Class: string(f.Class), Memory: string(f.Memory), Device: f.Device,
			PID: int32(f.PID), Rank: int32(f.Rank), Worker: f.Worker, Rate: f.Rate, Low: f.Low, High: f.High,
			ByTime: f.ByTime, Start: int64(f.Start), End: int64(f.End), Grown: int64(f.Total), Noise: f.Noise, P: f.P,
			Readings: int64(f.N), Reason: f.Reason, Site: f.Site, Holder: f.Holder, Held: f.Held,
			Evidence: strings.Join(f.Evidence, "\n"), Advice: strings.Join(f.Advice, "\n"), Limit: f.Limit,
			Seconds: f.Seconds, SecondsLow: f.SecondsLow, SecondsHigh: f.SecondsHigh}
		if f.Verdict == detect.Healthy && f.Rate == 0 {
			row.Rate, row.Low, row.High, row.P = math.NaN(), math.NaN(), math.NaN(), math.NaN()
		}
		if f.Seconds == 0 {
			row.Seconds, row.SecondsLow, row.SecondsHigh = math.NaN(), math.NaN(), math.NaN()
		} else if f.SecondsHigh == 0 {
			row.SecondsHigh = math.NaN()
		}
		rows = append(rows, row)
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
