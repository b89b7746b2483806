package questions

import "fmt"

// Census is a census of a process.
type Census struct {
	Micros int64  `json:"t"`
	PID    int    `json:"pid"`
	Rank   *int   `json:"rank"`
	ID     int64  `json:"census_id"`
	Step   *int64 `json:"step"`
	Bytes  int64  `json:"bytes"`
	Count  int64  `json:"count"`
}

// Group is what a holder keeps of a kind. Before is what it kept at the census that is compared; nil where there was
// nothing.
type Group struct {
	Holder *string `json:"holder"`
	Site   *string `json:"site"`
	Role   string  `json:"role"`
	Device string  `json:"device"`
	DType  string  `json:"dtype"`
	Shape  string  `json:"shape"`
	Count  int64   `json:"count"`
	Bytes  int64   `json:"bytes"`
	Oldest *int64  `json:"oldest_step"`
	Before *int64  `json:"before"`
}

// Object is what a census says of objects of a type, or of a place.
type Object struct {
	Evidence string  `json:"evidence"`
	Type     string  `json:"type"`
	Count    *int64  `json:"count"`
	Delta    *int64  `json:"delta"`
	Length   *int64  `json:"length"`
	Bytes    *int64  `json:"bytes"`
	Holder   *string `json:"holder"`
	Site     *string `json:"site"`
	Detail   *string `json:"detail"`
}

// AllCensuses are the newest, with what tensors had in all; those of processes that leak come first.
const AllCensuses Of[Census] = `WITH newest AS (SELECT epoch_us(max(ts)) AS t, pid, any_value(rank) AS rank, census_id,
	max(step) AS step,
	coalesce(sum(bytes), 0)::BIGINT AS bytes, coalesce(sum("count"), 0)::BIGINT AS "count"
	FROM python.tensors GROUP BY pid, census_id ORDER BY t DESC LIMIT 200)
	SELECT * FROM newest ORDER BY pid IN (SELECT pid FROM memgauge.findings WHERE verdict = 'leak'
		AND ` + lastJudged + `) DESC, t DESC`

// Groups are those of one census of a process, beside those of another.
func Groups(pid, census, before int64) Of[Group] {
	return Of[Group](fmt.Sprintf(`WITH g AS (SELECT census_id, holder, site, role, device, dtype, shape,
		sum("count")::BIGINT AS n,
		coalesce(sum(bytes), 0)::BIGINT AS bytes, min(oldest_step) AS oldest FROM python.tensors
		WHERE pid = %[1]d AND census_id IN (%[2]d, %[3]d) GROUP BY ALL)
	SELECT coalesce(a.holder, b.holder) AS holder, coalesce(a.site, b.site) AS site,
		coalesce(a.role, b.role) AS role,
		coalesce(a.device, b.device) AS device, coalesce(a.dtype, b.dtype) AS dtype,
		coalesce(a.shape, b.shape) AS shape, coalesce(a.n, 0) AS "count", coalesce(a.bytes, 0) AS bytes,
		a.oldest AS oldest_step, b.bytes AS before
	FROM (SELECT * FROM g WHERE census_id = %[2]d) a FULL JOIN (SELECT * FROM g WHERE census_id = %[3]d) b
		ON a.holder IS NOT DISTINCT FROM b.holder AND a.site IS NOT DISTINCT FROM b.site AND a.role = b.role
		AND a.device = b.device AND a.dtype = b.dtype AND a.shape = b.shape
	ORDER BY greatest(coalesce(a.bytes, 0), coalesce(b.bytes, 0)) DESC LIMIT 500`, pid, census, before))
}

// Objects are those that a census found to grow, or to be long.
func Objects(pid, census int64) Of[Object] {
	return Of[Object](fmt.Sprintf(`SELECT evidence, type, "count", delta, length, bytes, holder, site, detail
	FROM python.objects
	WHERE pid = %d AND census_id = %d AND evidence <> 'count'
	ORDER BY delta DESC NULLS LAST, length DESC NULLS LAST LIMIT 100`, pid, census))
}
