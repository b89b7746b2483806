package questions

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Finding is a row of memgauge.findings, read back.
type Finding struct {
	model.Finding
	Micros     int64  `json:"t"` // since the epoch
	Number     int64  `json:"judgement"`
	RunVerdict string `json:"run_verdict"`
}

// Told is the finding as it was told when it was judged, but for what the table lacks.
func (f Finding) Told() model.Finding { return detect.Read(f.Finding) }

// Findings are those of the judgements after a number. A column has the name of the JSON's member, but for a few older
// ones.
func Findings(after int64) Of[Finding] {
	return Of[Finding](fmt.Sprintf(findings+"WHERE judgement > %d ORDER BY judgement LIMIT 4000", after))
}

// LastFindings are those of the newest judgement.
const LastFindings Of[Finding] = findings + "WHERE " + lastJudged

// lastJudged are the rows of the last judgement.
const lastJudged = "judgement = (SELECT max(judgement) FROM memgauge.findings)"

// Seen is the step by which something was first seen.
type Seen struct {
	Step int64 `json:"step"`
}

// FirstSeen is the step by which a memory was first called a leak; 0 where none was, or there are no steps.
const FirstSeen Of[Seen] = `SELECT coalesce(min(end_step), 0)::BIGINT AS step FROM memgauge.findings
	WHERE verdict = 'leak' AND NOT by_time`

const findings = `SELECT *, epoch_us(ts) AS t, grown AS growth_bytes, limit_name AS "limit",
	seconds_to_limit AS time_to_limit_seconds, seconds_low AS time_to_limit_low, seconds_high AS time_to_limit_high
	FROM memgauge.findings `

// StepBytes is what a memory was at a step.
type StepBytes struct{ Step, Bytes float64 }

// Readings is the statement that reads a memory over the steps; "" where none can.
func Readings(f *detect.Finding) Of[StepBytes] {
	const (
		atSteps = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.steps
			WHERE pid = %[1]d AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		onDevice = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.step_devices
			WHERE pid = %[1]d AND device = '%[3]s' AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		// Readings by time are assigned to the steps of the process that makes the most.
		byTime = `WITH trainer AS (SELECT pid FROM python.steps GROUP BY pid ORDER BY max(step) DESC LIMIT 1),
			done AS (SELECT ts, max(step)::DOUBLE AS step FROM python.steps WHERE pid = (SELECT pid FROM trainer)
				GROUP BY ts)
			SELECT d.step, m.%[2]s::DOUBLE AS bytes FROM process.memory m ASOF JOIN done d ON d.ts <= m.ts
			WHERE m.pid = %[1]d AND m.%[2]s IS NOT NULL ORDER BY m.ts`
	)
	read := func(sql string, args ...any) Of[StepBytes] { return Of[StepBytes](fmt.Sprintf(sql, args...)) }
	switch f.Memory {
	case detect.Heap:
		return read(atSteps, f.PID, "heap_in_use")
	case detect.Private:
		return read(atSteps, f.PID, "anon - heap_held")
	case detect.Anon:
		return read(atSteps, f.PID, "anon")
	case detect.Device:
		return read(onDevice, f.PID, "allocated", f.Device)
	case detect.Reserved:
		return read(onDevice, f.PID, "reserved", f.Device)
	case detect.Worker:
		return read(byTime, f.PID, "anon")
	case detect.Shared:
		return read(byTime, f.PID, "shmem")
	case detect.Mapped:
		return read(byTime, f.PID, "file")
	}
	return ""
}
