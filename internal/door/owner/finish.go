package owner

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Maintain keeps the database within its size.
func (o *Owner) Maintain(ctx context.Context) error {
	db := o.base.opened()
	if db == nil {
		return nil
	}
	_, err := db.Maintain(ctx)
	return err
}

// Finish completes the session after the job's end: it drains the rings, records how the job ended unless memgauge run
// has, and compacts the database.
func (o *Owner) Finish(ctx context.Context) error {
	if _, err := o.rings.Finish(ctx); err != nil {
		return fmt.Errorf("drain what is left: %w", err)
	}
	if err := o.StoreSamples(ctx, 0); err != nil {
		return err
	}
	if err := o.lookNative(ctx, 0); err != nil {
		return err
	}
	if err := o.lastJudgement(ctx); err != nil {
		return err
	}
	if err := o.recordEnd(ctx); err != nil {
		return err
	}
	db, err := o.base.get(ctx)
	if err != nil {
		return err
	}
	if err := db.SetBacktrace(ctx, nil); err != nil {
		return err
	}
	if err := o.Maintain(ctx); err != nil {
		return fmt.Errorf("keep the database small: %w", err)
	}
	return db.Checkpoint(ctx)
}

// recordEnd completes end.json and adds the end to memgauge.events, once.
func (o *Owner) recordEnd(ctx context.Context) error {
	end, ok, err := o.s.End()
	if err != nil {
		return err
	}
	refused := o.rings.Refused()
	if ok && end.Recorded {
		if slices.Equal(end.Refused, refused) {
			return nil
		}
		end.Refused = refused
		return o.s.SetEnd(end)
	}
	sum, err := o.Service().Summary(ctx)
	if err != nil {
		return err
	}
	if !ok {
		end = session.End{Ended: time.Now().UTC(), State: "lost"}
		if o.s.Meta.Attached {
			end.State = o.fateOfAttached(ctx)
		}
	}
	end.Refused = refused
	end.PIDs, end.Ranks, end.Recorded, end.Rows = sum.PIDs, sum.Ranks, true, sum.Rows
	end.Peak, end.Verdict = max(end.Peak, sum.PeakRSS), sum.Judged
	if end.OOM, err = o.outOfMemory(ctx); err != nil {
		return err
	}
	event := model.Event{Time: end.Ended.UnixMicro(), PID: int32(o.s.Meta.Process.PID), Rank: -1, Name: "end",
		Text: end.String(), Code: string(end.OOM), A: int64(end.Code), B: model.Null}
	if err := o.base.append(ctx, &model.Batch{Events: []model.Event{event}}); err != nil {
		return fmt.Errorf("record the end: %w", err)
	}
	return o.s.SetEnd(end)
}

// outOfMemory returns why the job is taken to have run out of memory; "" if it didn't.
func (o *Owner) outOfMemory(ctx context.Context) (why session.Cause, err error) {
	const sql = "SELECT name FROM memgauge.events WHERE name IN ('oom', 'oom_kill') GROUP BY name ORDER BY name"
	err = store.Each(ctx, o, sql, func(v []any) {
		why = session.OOMError
		if v[0] == "oom_kill" {
			why = session.OOMKill
		}
	})
	return why, err
}

// fateOfAttached returns how the last observed process ended, from its ring: detached (if the detaching client could
// not record it), ended (the interpreter exited) or vanished (it was killed, or left without closing its ring).
func (o *Owner) fateOfAttached(ctx context.Context) string {
	rows, err := o.Query(ctx, "SELECT ending FROM memgauge.processes ORDER BY ended DESC NULLS LAST LIMIT 1")
	if err != nil {
		return "vanished"
	}
	defer rows.Close()
	if !rows.Next() {
		return "vanished"
	}
	if ending, _ := rows.Values()[0].(string); ending == "exited" {
		return "ended"
	} else if ending == "detached" {
		return ending
	}
	return "vanished"
}
