package questions

import "fmt"

// Resident memory of a process by class, as expressions over process.memory: with shmem and file they add up to rss.
// What malloc holds may exceed what is resident of it, since a page that was never touched is not there. Where no agent
// has told of the heap, both of its parts are NULL and Anonymous is all of anon.
const (
	HeapInUse = "CASE WHEN heap_in_use IS NOT NULL THEN least(heap_in_use, anon) END"
	HeapFree  = "CASE WHEN heap_in_use IS NOT NULL THEN least(greatest(coalesce(heap_held, 0) - heap_in_use, 0)," +
		" anon - least(heap_in_use, anon)) END"
	Anonymous = "anon - coalesce(" + HeapInUse + ", 0) - coalesce(" + HeapFree + ", 0)"
	// Undivided is anon where the heap was not read: as anonymous memory it would look like growth when the reading
	// comes back. Divided is Anonymous elsewhere.
	Undivided = "CASE WHEN heap_in_use IS NULL THEN anon END"
	Divided   = "CASE WHEN heap_in_use IS NOT NULL THEN " + Anonymous + " END"
)

// Split is the same of one reading that was taken apart already.
func Split(anon, inUse, held int64) (used, free, rest int64) {
	used = min(inUse, anon)
	free = min(max(held-inUse, 0), anon-used)
	return used, free, anon - used - free
}

// Resident is a process's resident memory by class; what was not taken is nil.
type Resident struct {
	PID       int
	Role      string
	HeapInUse *int64 `json:"heap_in_use"`
	HeapFree  *int64 `json:"heap_free"`
	Anonymous *int64
	Shared    *int64
	File      *int64
}

// ResidentAt is the last reading of each process within two minutes before a time (µs since the epoch): the sampler
// looks at least each minute.
func ResidentAt(at int64) Of[Resident] {
	return Of[Resident](fmt.Sprintf(`WITH m AS (SELECT pid, max(ts) AS ts FROM process.memory
		WHERE ts <= make_timestamp(%[1]d) AND ts > make_timestamp(%[1]d - 120000000) GROUP BY pid)
	SELECT m.pid, coalesce(t.role, '') AS role, `+HeapInUse+` AS heap_in_use, `+HeapFree+` AS heap_free,
		`+Anonymous+` AS anonymous, shmem AS shared, file
	FROM process.memory p JOIN m ON m.pid = p.pid AND m.ts = p.ts
	LEFT JOIN (SELECT pid, any_value(role) AS role, max(last_seen) AS seen FROM process.tree GROUP BY pid) t
		ON t.pid = m.pid
	WHERE t.seen IS NULL OR t.seen >= make_timestamp(%[1]d - 5000000)`, at))
}

// DeviceUse is what is used of a GPU.
type DeviceUse struct {
	ID   int `json:"device_id"`
	Name string
	Used *int64
}

// DevicesAt is the last reading of each GPU within two minutes before a time (µs since the epoch).
func DevicesAt(at int64) Of[DeviceUse] {
	return Of[DeviceUse](fmt.Sprintf(`SELECT device_id, arg_max(name, ts) AS name, arg_max(used_bytes, ts) AS used
	FROM gpu.utilization WHERE ts <= make_timestamp(%[1]d) AND ts > make_timestamp(%[1]d - 120000000)
	GROUP BY device_id ORDER BY device_id`, at))
}

// Highest is the highest reading of a memory.
type Highest struct {
	Memory string `json:"memory"`
	Bytes  int64  `json:"bytes"`
}

// Peaks are each memory's highest readings. The job's is the highest sum at one moment; memory that processes share
// counts in each of them.
const Peaks Of[Highest] = `SELECT memory, bytes FROM (
 SELECT 'host process' AS memory, greatest((SELECT max(greatest(rss, max_rss)) FROM python.steps),
  (SELECT max(rss) FROM process.memory))::BIGINT AS bytes
 UNION ALL SELECT 'host job', max(b)::BIGINT FROM (SELECT sum(rss) AS b FROM process.memory GROUP BY ts)
 UNION ALL SELECT device, max(max_allocated)::BIGINT FROM python.step_devices GROUP BY device)
 WHERE bytes > 0 ORDER BY memory`
