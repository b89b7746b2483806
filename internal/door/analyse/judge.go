package analyse

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Judge reads a session and judges it.
func Judge(ctx context.Context, from store.Querier, o Options) (detect.Report, error) {
	in, err := Load(ctx, from, o)
	if err != nil {
		return detect.Report{}, err
	}
	r := detect.Run(in)
	masked, err := guarded(ctx, from)
	if err != nil {
		return detect.Report{}, err
	}
	r.HeldDown(masked)
	return r, nil
}

// guarded reads what guards have done in a session's processes.
func guarded(ctx context.Context, from store.Querier) ([]detect.Masked, error) {
	by := map[int64]*detect.Masked{}
	const sql = "SELECT pid::BIGINT AS who, code, text, count(*)::BIGINT FROM memgauge.events " +
		"WHERE name = 'guard' AND code IN ('" + wire.EventHelped + "', '" + wire.EventHolder + "') " +
		"GROUP BY ALL ORDER BY who, text"
	err := store.Each(ctx, from, sql, func(v []any) {
		pid, _ := v[0].(int64)
		m := by[pid]
		if m == nil {
			m = &detect.Masked{PID: int(pid)}
			by[pid] = m
		}
		if v[1] == wire.EventHolder {
			text, _ := v[2].(string)
			m.Holders = append(m.Holders, text)
		} else if n, ok := v[3].(int64); ok {
			m.Helped += int(n)
		}
	})
	if err != nil && !errors.Is(err, store.ErrNoTable) {
		return nil, err
	}
	var all []detect.Masked
	for _, pid := range slices.Sorted(maps.Keys(by)) {
		all = append(all, *by[pid])
	}
	return all, nil
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
