// Package export writes a session, live or finished, in the formats of other tools: a trace for Perfetto, a profile for
// pprof, event files for TensorBoard, tables as Parquet. It reads api.Session row by row, so that a session of any
// length needs the same memory, and thins what no viewer can draw. Where files go, and that they appear whole, is up to
// who calls it.
package export

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/units"
)

// maxPoints is how many steps, and how many readings of processes, a trace or an event file shows: Perfetto takes a
// second for each million of points, and TensorBoard draws a thousand. Of more, neighbours become one.
const maxPoints = 200_000

// process is one of the job's.
type process struct {
	PID     int
	Rank    *int
	Role    string
	Command string
	Steps   int64 // rows in python.steps
	Peak    int64 `json:"peak"`
}

// name tells processes apart in a viewer.
func (p process) name() string {
	if p.Rank != nil && p.Role == "trainer" {
		return fmt.Sprintf("rank %d", *p.Rank)
	}
	return fmt.Sprintf("%s %d", p.Role, p.PID)
}

// maxProcesses bounds those that are shown: a run with a new set of workers for each epoch has thousands.
const maxProcesses = 256

// processes lists the trainers, then the others from the largest; left is how many are not shown.
func processes(ctx context.Context, s api.Session) (list []process, left int, err error) {
	list, err = api.Rows[process](ctx, s, `WITH s AS (SELECT pid, count(*) AS steps FROM python.steps WHERE NOT inference
			GROUP BY pid)
		SELECT t.pid, any_value(coalesce(t.rank, p.rank)) AS rank, arg_max(t.role, t.started) AS role,
			arg_max(t.command, t.started) AS command, coalesce(any_value(s.steps), 0) AS steps,
			max(coalesce(t.peak_rss, 0)) AS peak
		FROM process.tree t LEFT JOIN memgauge.processes p USING (pid, start_ticks) LEFT JOIN s USING (pid)
		GROUP BY t.pid ORDER BY steps = 0, rank NULLS LAST, peak DESC, t.pid`)
	if err == nil && len(list) > maxProcesses {
		left = len(list) - maxProcesses
		list = slices.Clone(list[:maxProcesses])
	}
	return list, left, err
}

// stride is how many rows become one where n are more than can be shown.
func stride(n int64) int64 { return max(1, (n+maxPoints-1)/maxPoints) }

// count asks for one number; no row is 0.
func count(ctx context.Context, s api.Session, sql string) (int64, error) {
	type number struct{ N *int64 }
	rows, err := api.Rows[number](ctx, s, sql)
	if err != nil || len(rows) == 0 || rows[0].N == nil {
		return 0, err
	}
	return *rows[0].N, nil
}

// finding is a row of the newest judgement.
type finding struct {
	Run       string `json:"run_verdict"`
	Verdict   string
	Class     string
	Memory    string
	Device    *string
	PID       int
	Rate      *float64 // bytes
	ByTime    bool     `json:"by_time"`
	StartStep int64    `json:"start_step"`
	EndStep   int64    `json:"end_step"`
	Site      *string
	Holder    *string
	Reason    *string
	Advice    *string
	From      *int64 // µs since the epoch at StartStep; nil unknown
	To        *int64
}

func findings(ctx context.Context, s api.Session) ([]finding, error) {
	return api.Rows[finding](ctx, s, `SELECT f.run_verdict, f.verdict, f.class, f.memory, f.device, f.pid,
			coalesce(f.rate_mb_per_step, f.rate_mb_per_second) * 1048576 AS rate, f.by_time, f.start_step, f.end_step, f.site, f.holder, f.reason, f.advice,
			(SELECT epoch_us(min(s.ts)) FROM python.steps s WHERE s.pid = f.pid AND s.step >= f.start_step) AS "from",
			(SELECT epoch_us(max(s.ts)) FROM python.steps s WHERE s.pid = f.pid AND s.step <= f.end_step) AS "to"
		FROM memgauge.findings f WHERE judgement = (SELECT max(judgement) FROM memgauge.findings)
		ORDER BY f.verdict <> 'leak', rate DESC`)
}

// memory names what was judged.
func (f finding) memory() string { return strings.TrimSpace(text(f.Device) + " " + f.Memory) }

// title is a finding in a line.
func (f finding) title() string {
	if f.Verdict != "leak" || f.Rate == nil {
		return f.Verdict + ": " + f.memory()
	}
	per := "step"
	if f.ByTime {
		per = "s"
	}
	title := fmt.Sprintf("LEAK: %s +%s/%s", f.memory(), units.Bytes(*f.Rate), per)
	if f.Holder != nil {
		title += ", held by " + *f.Holder
	}
	return title
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
