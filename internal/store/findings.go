package store

import (
	"math"

	"github.com/memgauge/memgauge/internal/model"
)

func findingColumns(s *sheet, rows []model.Finding) {
	put(s, rows, func(r *model.Finding) int64 { return r.Time })
	put(s, rows, func(r *model.Finding) int64 { return r.Judgement })
	putText(s, rows, func(r *model.Finding) string { return r.Run })
	putText(s, rows, func(r *model.Finding) string { return r.Verdict })
	putText(s, rows, func(r *model.Finding) string { return r.Class })
	putText(s, rows, func(r *model.Finding) string { return r.Memory })
	putText(s, rows, func(r *model.Finding) string { return r.Device })
	put(s, rows, func(r *model.Finding) int32 { return r.PID })
	putOr(s, rows, -1, func(r *model.Finding) int32 { return r.Rank })
	put(s, rows, func(r *model.Finding) bool { return r.Worker })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.Rate })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.Low })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.High })
	put(s, rows, func(r *model.Finding) bool { return r.ByTime })
	putSize(s, rows, func(r *model.Finding) int64 { return r.Start })
	putSize(s, rows, func(r *model.Finding) int64 { return r.End })
	putSize(s, rows, func(r *model.Finding) int64 { return r.Grown })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.Noise })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.P })
	put(s, rows, func(r *model.Finding) int64 { return r.Readings })
	putText(s, rows, func(r *model.Finding) string { return r.Reason })
	putText(s, rows, func(r *model.Finding) string { return r.Site })
	putText(s, rows, func(r *model.Finding) string { return r.Holder })
	putText(s, rows, func(r *model.Finding) string { return r.Held })
	putText(s, rows, func(r *model.Finding) string { return r.Evidence })
	putText(s, rows, func(r *model.Finding) string { return r.Advice })
	putText(s, rows, func(r *model.Finding) string { return r.Limit })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.Seconds })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.SecondsLow })
	putKnown(s, rows, func(r *model.Finding) float64 { return r.SecondsHigh })
}

// putKnown fills a column in which what isn't a number is NULL.
func putKnown(s *sheet, rows []model.Finding, get func(*model.Finding) float64) {
	putShare(s, rows, func(r *model.Finding) float64 {
		if x := get(r); !math.IsInf(x, 0) {
			return x
		}
		return math.NaN()
	})
}

// findingDocs are the lines of memgauge.findings' columns.
var findingDocs = map[string]string{
	"judgement":   "number of the judging, from 1; its rows stand together",
	"run_verdict": "leak, healthy or undecided, of the whole run",
	"verdict":     "leak, healthy or undecided, of this memory", "class": "kind of leak (docs/detect.md)",
	"memory": "which memory: host heap, host anonymous, worker, device …",
	"worker": "a process that makes no steps of its own",
	"rate":   "bytes a step", "rate_mb_per_step": "MB (2^20 bytes) a step",
	"rate_low":  "lower end of its 95 % interval, the same unit",
	"rate_high": "upper end of it, the same unit", "by_time": "there are no steps: rates are by second",
	"rate_mb_per_second": "MB (2^20 bytes) a second; NULL where rates are by step",
	"start_step":         "step (by time: second) from which it grows so",
	"end_step":           "last step (by time: second) that was read",
	"grown":              "bytes in all", "noise": "bytes, standard deviation of a floor",
	"p": "chance of such a rise without a trend", "readings": "how many there were",
	"reason": "why not more, in a few words",
	"site":   "file:line; NULL unknown", "holder": "what holds the memory; NULL unknown", "held": "what it is",
	"advice":   "what to do, lines",
	"evidence": "what speaks for it, lines", "limit_name": "what it runs into; NULL unknown",
	"seconds_to_limit": "s, at the pace of the last steps; NULL where no limit is in sight",
	"seconds_low":      "s, lower end of its interval", "seconds_high": "s, upper end of it",
}
