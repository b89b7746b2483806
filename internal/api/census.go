package api

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
