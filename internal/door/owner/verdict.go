package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Keep stores a judgement that differs from the one before, and adds an event for a leak once.
func (o *Owner) Keep(ctx context.Context, r detect.Report) error {
	o.verdicts.Lock()
	defer o.verdicts.Unlock()
	if o.verdicts.count > 0 && analyse.Same(o.verdicts.last, r) {
		return nil
	}
	if o.verdicts.count == 0 { // a collector before this one may have judged
		const sql = "SELECT coalesce(max(judgement), 0) FROM memgauge.findings"
		if err := store.Each(ctx, o, sql, func(v []any) { o.verdicts.count, _ = v[0].(int64) }); err != nil {
			return fmt.Errorf("keep the verdict: %w", err)
		}
	}
	now := time.Now()
	b := &model.Batch{Findings: analyse.Rows(r, o.verdicts.count+1, now)}
	if r.Verdict == detect.Leak && o.verdicts.last.Verdict != detect.Leak {
		f := r.Findings[0]
		b.Events = append(b.Events, model.Event{Time: now.UnixMicro(), PID: int32(f.PID), Rank: int32(f.Rank),
			Name: "leak", Text: r.Line(), A: int64(f.Start), B: int64(f.End)})
	}
	if err := o.base.append(ctx, b); err != nil {
		return fmt.Errorf("keep the verdict: %w", err)
	}
	o.verdicts.last = r
	o.verdicts.count++
	return nil
}

// lastJudgement stores the verdict on the whole session. If judging fails, the session is finished without it.
func (o *Owner) lastJudgement(ctx context.Context) error {
	r, err := analyse.Judge(ctx, o, analyse.Options{Over: true, Sources: &o.sources})
	if err == nil {
		err = o.Keep(ctx, r)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		event := model.Event{Time: time.Now().UnixMicro(), Rank: -1, Name: "error", Text: "no verdict: " + err.Error(),
			A: model.Null, B: model.Null}
		return o.base.append(ctx, &model.Batch{Events: []model.Event{event}})
	}
	return err
}
