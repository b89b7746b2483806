package questions

import (
	"fmt"
	"strings"
)

// NewestCensuses is the SQL of the census that counts for each process: pid, census_id, rank, step, ts, note. That is
// the newest that saw everything, or a newer one that was cut short, if it found at least as many bytes: what a census
// had no time to look at it leaves out. Where none saw everything, one that the process's end cut off comes last. Only
// censuses for which the condition holds count; it may be about pid and ts.
func NewestCensuses(condition string) string {
	return `SELECT pid, census_id, rank, step, ts, note FROM (
	SELECT e.pid, e.rank, e.a AS census_id, e.ts, coalesce(e.text, '') AS note, found.bytes, found.step,
		arg_max(found.bytes, e.ts) FILTER (coalesce(e.text, '') = '' AND found.bytes IS NOT NULL)
			OVER (PARTITION BY e.pid) AS whole
	FROM (SELECT * FROM memgauge.events WHERE name = 'census' AND ` + condition + `) e LEFT JOIN (
		SELECT pid, census_id, sum(coalesce(bytes, 0))::BIGINT AS bytes, max(step) AS step FROM (
			SELECT pid, census_id, bytes, step FROM python.tensors
			UNION ALL SELECT pid, census_id, CASE evidence WHEN 'container' THEN bytes END, step FROM python.objects
				WHERE evidence <> 'count') GROUP BY ALL) found ON found.pid = e.pid AND found.census_id = e.a)
	QUALIFY row_number() OVER (PARTITION BY pid ORDER BY note <> '' AND bytes < whole, bytes IS NULL,
		whole IS NULL AND contains(note, '` + cutOff + `'), ts DESC) = 1`
}

// cutOff is in the note of a census that was cut off by the end of its process (census.py).
const cutOff = "the process ended"

// Holding is what one holder keeps, by the census that counts of its process.
type Holding struct {
	PID    int
	Rank   *int
	What   string // role of tensors; else the container's type
	Holder *string
	Site   *string
	Bytes  int64
}

// Holdings are those of tensors. Containers may hold the very tensors that are listed, so they are there only for
// processes without tensors.
var Holdings = Of[Holding](`WITH last AS (` + NewestCensuses("true") + `),
	t AS (SELECT t.pid, t.rank, t.role AS what, t.holder, t.site, t.bytes FROM python.tensors t
		JOIN last ON t.pid = last.pid AND t.census_id = last.census_id WHERE t.bytes > 0)
	SELECT * FROM t UNION ALL SELECT o.pid, o.rank, o.type, o.holder, o.site, o.bytes FROM python.objects o
		JOIN last ON o.pid = last.pid AND o.census_id = last.census_id
		WHERE o.evidence = 'container' AND o.bytes > 0 AND o.pid NOT IN (SELECT pid FROM t)`)

// Counted is a census that counts.
type Counted struct {
	PID  int    `json:"pid"`
	Rank *int   `json:"rank"`
	ID   int64  `json:"census_id"`
	Step *int64 `json:"step"`
	Time string `json:"ts"`   // RFC 3339
	Note string `json:"note"` // what is missing in it
}

// Censuses are those that count, of each process, or of certain ones.
func Censuses(pids ...int) Of[Counted] {
	which := "true"
	if len(pids) > 0 {
		which = "pid IN (" + strings.Trim(strings.ReplaceAll(fmt.Sprint(pids), " ", ", "), "[]") + ")"
	}
	return Of[Counted]("SELECT * REPLACE (strftime(ts, '%Y-%m-%dT%H:%M:%S.%fZ') AS ts) FROM (" + NewestCensuses(which) +
		") ORDER BY rank NULLS LAST, pid")
}

// HostHolding is what a holder kept on the host.
type HostHolding struct {
	PID    int
	Holder string
	Bytes  int64
}

// upTo are the rows until a time (µs since the epoch); 0: all.
func upTo(until int64) string {
	if until <= 0 {
		return "true"
	}
	return fmt.Sprintf("ts <= make_timestamp(%d)", until)
}

// HostHoldings are the largest holders of tensors on the host, by the census that counts of each process until a time
// (µs since the epoch; 0: until now).
func HostHoldings(until int64) Of[HostHolding] {
	return Of[HostHolding](`WITH last AS (SELECT pid, census_id FROM (` + NewestCensuses(upTo(until)) + `))
		SELECT pid, coalesce(holder, site, '?') AS holder, sum(bytes)::BIGINT AS bytes FROM python.tensors
		JOIN last USING (pid, census_id) WHERE device = 'cpu' AND bytes > 0 GROUP BY ALL ORDER BY bytes DESC LIMIT 60`)
}

// LeakedHoldings are what the holders of heap leaks have gained until a time (µs since the epoch; 0: until now), by the
// last judgement. A census counts tensors, and at its own moment; this has a kept graph's memory too, up to the time.
func LeakedHoldings(until int64) Of[HostHolding] {
	return Of[HostHolding](`SELECT f.pid, f.holder,
			greatest(0, least(f.grown, (s.step - f.start_step) * f.rate_mb_per_step * 1048576))::BIGINT AS bytes
		FROM memgauge.findings f
		JOIN (SELECT pid, max(step) AS step FROM python.steps WHERE ` + upTo(until) + ` GROUP BY pid) s USING (pid)
		WHERE ` + lastJudged + ` AND f.verdict = 'leak'
			AND f.memory = 'host heap' AND f.holder IS NOT NULL AND NOT f.by_time ORDER BY bytes DESC`)
}

// Holder is a place that holds memory, of tensors or of other objects.
type Holder struct {
	PID    int    `json:"pid"`
	Kind   string `json:"kind"` // tensors, container, graph, cycle, traceback, hooks
	Holder string `json:"holder"`
	Site   string `json:"site"`
	Text   string `json:"text"` // shape, type and device, or what it is
	Count  int64  `json:"count"`
	Bytes  int64  `json:"bytes"` // -1 unknown
	Fresh  int64  `json:"fresh"` // since the census before
	Step   int64  `json:"step"`  // of the census
	Oldest int64  `json:"oldest"`
}

// Holders reads the census that counts of each process at a time (µs since the epoch). Containers count their items.
func Holders(at int64) Of[Holder] {
	return Of[Holder](`WITH t AS (SELECT pid, census_id AS id FROM (` +
		NewestCensuses(fmt.Sprintf("ts <= make_timestamp(%d)", at)) + `))
	SELECT * FROM (SELECT x.pid, 'tensors' AS kind, coalesce(holder, '') AS holder, coalesce(site, '') AS site,
		concat_ws(' ', arg_max(shape, bytes), arg_max(x.dtype, bytes), arg_max(x.device, bytes)) AS text,
		sum(x.count)::BIGINT AS count, coalesce(sum(x.bytes), -1)::BIGINT AS bytes,
		coalesce(sum(fresh), 0)::BIGINT AS fresh, coalesce(max(step), 0) AS step,
		coalesce(min(oldest_step), 0) AS oldest
	FROM python.tensors x JOIN t ON x.pid = t.pid AND x.census_id = t.id GROUP BY ALL
	UNION ALL SELECT x.pid, evidence, coalesce(holder, ''), coalesce(site, ''), coalesce(type, ''),
		coalesce(length, x.count, 0), coalesce(x.bytes, -1), coalesce(delta, 0), coalesce(step, 0), 0
	FROM python.objects x JOIN t ON x.pid = t.pid AND x.census_id = t.id
	WHERE evidence IN ('container', 'graph', 'cycle', 'traceback', 'hooks') AND coalesce(delta, 0) > 0)
	ORDER BY bytes DESC, fresh DESC LIMIT 200`)
}

// TensorGroup is a row of python.tensors.
type TensorGroup struct {
	Shape      string  `json:"shape"`
	Dtype      string  `json:"dtype"`
	Device     string  `json:"device"`
	Role       string  `json:"role"`
	Count      int64   `json:"count"`
	Bytes      int64   `json:"bytes"`
	Fresh      *int64  `json:"fresh"`
	OldestStep *int64  `json:"oldest_step"`
	Site       *string `json:"site"`
	Holder     *string `json:"holder"`
	Estimated  bool    `json:"estimated"`
}

// ObjectGroup is a row of python.objects.
type ObjectGroup struct {
	Evidence  string  `json:"evidence"`
	Type      string  `json:"type"`
	Count     int64   `json:"count"`
	Delta     *int64  `json:"delta"`
	Length    *int64  `json:"length"`
	Bytes     *int64  `json:"bytes"`
	Holder    *string `json:"holder"`
	Site      *string `json:"site"`
	Detail    string  `json:"detail"`
	Estimated bool    `json:"estimated"`
}

// TensorGroups are those of a census, the largest first.
func TensorGroups(pid int, census int64) Of[TensorGroup] {
	return Of[TensorGroup](fmt.Sprintf(`SELECT shape, dtype, device, role, count, bytes, fresh, oldest_step, site,
	holder, estimated FROM python.tensors WHERE pid = %d AND census_id = %d ORDER BY bytes DESC, count DESC`, pid,
		census))
}

// ObjectGroups are what a census says of other objects, what grows most first.
func ObjectGroups(pid int, census int64) Of[ObjectGroup] {
	return Of[ObjectGroup](fmt.Sprintf(`SELECT evidence, type, count, delta, length, bytes, holder, site, detail,
	estimated FROM python.objects WHERE pid = %d AND census_id = %d AND evidence <> 'count'
	ORDER BY delta DESC NULLS LAST, bytes DESC NULLS LAST`, pid, census))
}
