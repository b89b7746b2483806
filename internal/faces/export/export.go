// Package export writes a session, live or finished, in the formats of other tools: a trace for Perfetto, a profile for
// pprof, event files for TensorBoard, tables as Parquet. It reads api.Session row by row, so that a session of any
// length needs the same memory, and thins data that no viewer can draw. The caller decides where files go, and makes
// them appear only when complete.
package export

import (
	"context"
	"fmt"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// maxPoints bounds the steps, and the readings of processes, in a trace or an event file: Perfetto takes a second for
// each million points, and TensorBoard draws a thousand. Beyond it, neighbours are merged.
const maxPoints = 200_000

// process is one of the job's.
type process struct{ questions.Shown }

// name is the process's name in a viewer.
func (p process) name() string {
	if p.Rank != nil && p.Role == "trainer" {
		return fmt.Sprintf("rank %d", *p.Rank)
	}
	return fmt.Sprintf("%s %d", p.Role, p.PID)
}

// maxProcesses bounds the processes that are shown: a run with new workers in each epoch has thousands.
const maxProcesses = 256

// processes lists the trainers, then the others from the largest; left is how many are not shown.
func processes(ctx context.Context, s api.Session) (list []process, left int, err error) {
	shown, err := api.Ask(ctx, s, questions.AllShown)
	if err == nil && len(shown) > maxProcesses {
		left = len(shown) - maxProcesses
		shown = shown[:maxProcesses]
	}
	for _, p := range shown {
		list = append(list, process{p})
	}
	return list, left, err
}

// stride returns how many of n rows are merged into one, so that at most maxPoints are left.
func stride(n int64) int64 { return max(1, (n+maxPoints-1)/maxPoints) }

// count runs a query for one number; no row is 0.
func count(ctx context.Context, s api.Session, sql string) (int64, error) {
	type number struct{ N *int64 }
	rows, err := api.Rows[number](ctx, s, sql)
	if err != nil || len(rows) == 0 || rows[0].N == nil {
		return 0, err
	}
	return *rows[0].N, nil
}

// finding is the verdict on one memory with its times in µs since the epoch; 0 if unknown.
type finding struct {
	detect.Finding
	from, to int64
}

// findings judges the session as it is now, as memgauge leak does.
func findings(ctx context.Context, s api.Session) ([]finding, error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	report, err := s.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	list := make([]finding, len(report.Findings))
	var spans []questions.Stretch
	for i, f := range report.Findings {
		list[i].Finding = f
		if f.ByTime { // steps are seconds
			began := about.Started.UnixMicro()
			list[i].from, list[i].to = began+int64(f.Start*1e6), began+int64(f.End*1e6)
			continue
		}
		spans = append(spans, questions.Stretch{I: i, PID: f.PID, Low: int64(f.Start), High: int64(f.End)})
	}
	if len(spans) == 0 {
		return list, nil
	}
	rows, err := api.Ask(ctx, s, questions.Dates(spans))
	for _, r := range rows {
		if r.I < 0 || r.I >= len(list) { // it may come from another machine
			return nil, fmt.Errorf("read the session's answer: it tells of finding %d of %d", r.I, len(list))
		}
		list[r.I].from, list[r.I].to = r.From, r.To
	}
	return list, err
}

// title describes a finding in one line.
func (f finding) title() string {
	if f.Verdict != detect.Leak {
		return string(f.Verdict) + ": " + f.Name()
	}
	title := "LEAK: " + f.Name() + " " + f.PerStep()
	if f.Holder != "" {
		title += ", held by " + f.Holder
	}
	return title
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
