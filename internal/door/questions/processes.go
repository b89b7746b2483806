package questions

import "fmt"

// Process is one of the job's.
type Process struct {
	PID     int    `json:"pid"`
	Role    string `json:"role"`
	Rank    *int   `json:"rank"`
	Command string `json:"command"`
	Peak    *int64 `json:"peak_rss"`
	Ended   bool   `json:"ended"`
}

// Stepped is a process with how far it came.
type Stepped struct {
	Process
	Parent int     `json:"ppid"`
	Steps  *int64  `json:"steps"`
	Python *string `json:"python"`
}

// Lived is a process with its place in the tree and its time, in µs since the epoch, 0 unknown.
type Lived struct {
	Process
	Parent   int   `json:"ppid"`
	Started  int64 `json:"started"`
	LastSeen int64 `json:"last_seen"`
}

const processes = `SELECT t.pid, coalesce(t.ppid, 0) AS ppid, coalesce(t.role, '') AS role, t.rank,
	coalesce(nullif(t.command, ''), t.comm, '') AS command, t.peak_rss, coalesce(t.ended, false) AS ended, s.steps,
	p.python, coalesce(epoch_us(t.started), 0) AS started, coalesce(epoch_us(t.last_seen), 0) AS last_seen
	FROM process.tree t
	LEFT JOIN (SELECT pid, max(step) AS steps FROM python.steps GROUP BY pid) s ON s.pid = t.pid
	LEFT JOIN (SELECT pid, any_value(python) AS python FROM memgauge.processes GROUP BY pid) p ON p.pid = t.pid `

// Foremost are those that make steps, then the largest.
func Foremost(most int) Of[Stepped] {
	return Of[Stepped](processes + fmt.Sprintf(
		"ORDER BY s.steps DESC NULLS LAST, t.peak_rss DESC NULLS LAST LIMIT %d", most))
}

// Largest are those that held most.
func Largest(most int) Of[Process] {
	return Of[Process](processes + fmt.Sprintf("ORDER BY t.peak_rss DESC NULLS LAST LIMIT %d", most))
}

// Tree is the job's processes as they came.
const Tree Of[Lived] = processes + "ORDER BY t.first_seen LIMIT 4096"

// Standing says in a line how a session stands.
type Standing struct {
	Verdict *string  `json:"verdict"`
	Peak    *int64   `json:"peak"`
	Limit   *int64   `json:"limit"`
	Steps   *int64   `json:"steps"`
	Rate    *float64 `json:"rate_mb"` // of the leak that grew most, in MiB a unit
	Unit    *string  `json:"unit"`
	Holder  *string  `json:"holder"`
	Line    []int64  `json:"line"` // what the largest process held, from the session's begin to its end
}

// linePoints are as many as a line beside a name has pixels for.
const linePoints = 60

// Brief is one row. Where a cgroup's limit binds, the limit and the peak are that cgroup's as the kernel counts them;
// else they are the machine's memory and the largest process's peak.
var Brief = Of[Standing](fmt.Sprintf(`WITH own AS (SELECT min(limit_bytes) AS "limit", max(current) AS peak
		FROM cgroup.memory WHERE limit_bytes IS NOT NULL GROUP BY path ORDER BY 1 LIMIT 1),
	judged AS (SELECT * FROM memgauge.findings WHERE `+lastJudged+`),
	leak AS (SELECT * FROM judged WHERE verdict = 'leak' ORDER BY grown DESC LIMIT 1),
	held AS (SELECT ts, rss FROM process.memory WHERE rss IS NOT NULL
		AND pid = (SELECT pid FROM process.tree ORDER BY peak_rss DESC NULLS LAST LIMIT 1)),
	span AS (SELECT epoch_us(min(ts)) AS a, greatest(1, epoch_us(max(ts)) - epoch_us(min(ts))) AS length FROM held),
	line AS (SELECT (epoch_us(ts) - a) * %d // length AS slot, max(rss) AS rss FROM held, span GROUP BY 1)
	SELECT (SELECT any_value(run_verdict) FROM judged) AS verdict,
	coalesce((SELECT peak FROM own), (SELECT max(peak_rss) FROM process.tree)) AS peak,
	coalesce((SELECT "limit" FROM own), (SELECT max(total) FROM host.memory)) AS "limit",
	(SELECT max(step) FROM python.steps) AS steps,
	(SELECT rate_mb_per_step FROM leak) AS rate_mb, (SELECT coalesce(unit, 'step') FROM leak) AS unit,
	(SELECT holder FROM leak) AS holder, coalesce((SELECT list(rss ORDER BY slot) FROM line), []) AS line`,
	linePoints-1))

// Cgroup is one that a process of the session is in. It is the job's own where it has a limit, or where at least half
// of what was anonymous in it was the session's; else it is a service's or a user's, and says little of the job.
type Cgroup struct {
	Path string `json:"path"`
	Own  bool   `json:"own"`
}

// Cgroups are the largest, the job's own first.
const Cgroups Of[Cgroup] = `WITH charged AS (
		SELECT path, max(current) AS most, max(anon) AS anon, max(limit_bytes) AS "limit"
		FROM cgroup.memory GROUP BY path),
	held AS (SELECT t.cgroup, sum(m.anon) AS anon FROM process.tree t
		JOIN (SELECT pid, max(anon) AS anon FROM process.memory GROUP BY pid) m USING (pid) GROUP BY t.cgroup)
	SELECT path, "limit" IS NOT NULL OR coalesce((SELECT sum(anon) FROM held WHERE held.cgroup = path
		OR starts_with(held.cgroup, rtrim(path, '/') || '/')) >= charged.anon / 2, false) AS own
	FROM charged ORDER BY own DESC, most DESC LIMIT 4`

// Device is a GPU.
type Device struct {
	ID    int    `json:"device_id"`
	Name  string `json:"name"`
	Total int64  `json:"total_bytes"`
}

// Devices are the session's GPUs.
const Devices Of[Device] = `SELECT device_id, name, total_bytes FROM gpu.devices ORDER BY device_id`

// Number is a count.
type Number struct{ N *int64 }

// Naming counts where the session names a line of source, FILE:LINE, as a site.
func Naming(site string) Of[Number] {
	return Of[Number](fmt.Sprintf(`SELECT count(*) AS n FROM (SELECT site FROM python.tensors WHERE site = %[1]s
	UNION ALL SELECT site FROM python.objects WHERE site = %[1]s
	UNION ALL SELECT site FROM memgauge.findings WHERE site = %[1]s
	UNION ALL SELECT text FROM memgauge.events WHERE name IN ('peak', 'phase')
		AND regexp_extract(regexp_replace(text, ' \(cuda:[0-9]+\)$', ''), '^.*, (.*)$', 1) = %[1]s)`, Quoted(site)))
}
