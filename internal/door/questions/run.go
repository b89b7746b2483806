package questions

import "fmt"

// Covered is the time that a session's readings cover, in µs since the epoch, and the last step; 0 for none.
type Covered struct {
	From int64 `json:"from"`
	To   int64 `json:"to"`
	Step int64 `json:"step"`
}

// Span is one row. A session may have steps and no samples, or the other way round.
const Span Of[Covered] = `SELECT coalesce(min(a), 0) AS "from", coalesce(max(b), 0) AS "to",
	coalesce(max(step), 0) AS step FROM (
	SELECT min(epoch_us(ts)) AS a, max(epoch_us(ts)) AS b, max(step) AS step FROM python.steps
	UNION ALL SELECT min(epoch_us(ts)), max(epoch_us(ts)), NULL FROM process.memory
	UNION ALL SELECT min(epoch_us(ts)), max(epoch_us(ts)), NULL FROM host.memory)`

// Traced is how many steps there are, of so many processes, and how many of them have rows in python.torch_trace.
type Traced struct {
	Steps     int64 `json:"steps"`
	Traced    int64 `json:"traced"`
	Processes int64 `json:"processes"`
}

// TracedSteps is one row.
const TracedSteps Of[Traced] = `SELECT coalesce(sum(steps), 0)::BIGINT AS steps, count(DISTINCT pid) AS processes,
	(SELECT count(*) FROM (SELECT DISTINCT pid, step FROM python.torch_trace)) AS traced FROM python.steps`

// TheirEvents is a condition on memgauge.events: those of the user's job. It leaves out that an eval begins, which its
// end tells, and the questions of our own commands, which sessions of the first release have among them.
const TheirEvents = `name <> 'eval begin' AND NOT (name = 'eval' AND starts_with(text, '__import__("') AND
	(contains(text, '"memgauge') OR contains(text, '"sys").modules')))`

// Event is one of the job's.
type Event struct {
	Micros int64  `json:"t"` // since the epoch
	PID    *int   `json:"pid"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

const itsEvents = "SELECT epoch_us(ts) AS t, pid, name, text FROM memgauge.events WHERE " + TheirEvents

// Events are the newest of the job's, in their order.
func Events(most int) Of[Event] {
	return Of[Event](fmt.Sprintf("SELECT * FROM (%s ORDER BY ts DESC LIMIT %d) ORDER BY t", itsEvents, most))
}

// Happened are the first events of the job that a picture of its memory should show: what changed it, or ended it.
func Happened(most int) Of[Event] {
	return Of[Event](fmt.Sprintf("%s AND name NOT IN ('start', 'budget', 'census', 'note', 'phase', 'phase over') "+
		"ORDER BY ts LIMIT %d",
		itsEvents, most))
}

// Cost is what a part of observing took.
type Cost struct {
	Part    string   `json:"part"`
	Seconds float64  `json:"seconds"`
	Share   *float64 `json:"share"` // of the covered time
}

// covered: shares are of the longest time that any part of a process covers, which is mostly the whole run: a census
// that covers only its own half second must not count as 15 %. A run of a few seconds is too short for a share.
const covered = `WITH p AS (SELECT pid, part, sum(ns) AS ns, sum(covered_ns) AS covered FROM memgauge.overhead
		GROUP BY ALL), run AS (SELECT pid, max(covered) AS covered, sum(ns) AS ns FROM p GROUP BY pid) `

// Costs are those of each part, the largest first.
const Costs Of[Cost] = covered + `SELECT part, sum(p.ns) / 1e9 AS seconds,
	CASE WHEN sum(run.covered) >= 10e9 THEN sum(p.ns) / sum(run.covered) END AS share
	FROM p JOIN run ON p.pid IS NOT DISTINCT FROM run.pid GROUP BY part ORDER BY seconds DESC`

// CostInAll is one row, of all parts inside the job's processes.
const CostInAll Of[Cost] = covered + `SELECT '' AS part, coalesce(sum(ns), 0) / 1e9 AS seconds,
	CASE WHEN sum(covered) >= 10e9 THEN sum(ns) / sum(covered) END AS share FROM run WHERE pid IS NOT NULL`

// CostBySide is one row for each side of the ring that took time, trainer and collector. A share is of the time that
// the side covers.
const CostBySide Of[Cost] = covered + `SELECT if(pid IS NULL, 'collector', 'trainer') AS part, sum(ns) / 1e9 AS seconds,
	CASE WHEN sum(covered) >= 10e9 THEN sum(ns) / sum(covered) END AS share FROM run GROUP BY 1 ORDER BY 1 DESC`

// Drop counts records that are not in the tables.
type Drop struct {
	Source  string `json:"source"`
	Reason  string `json:"reason"`
	Records int64  `json:"records"`
}

// Drops are those of each place and reason, the most first.
func Drops(most int) Of[Drop] {
	return Of[Drop](fmt.Sprintf(`SELECT source, reason, sum(records)::BIGINT AS records FROM memgauge.drops
	GROUP BY ALL ORDER BY records DESC LIMIT %d`, most))
}
