package questions

import (
	"fmt"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
)

// NativeLine is a line whose calls hold native memory.
type NativeLine struct {
	Site   string `json:"site"`
	Called string `json:"called"`
	Bytes  int64  `json:"bytes"`
	Half   int64  `json:"half"`  // of the 95 % interval
	Grown  int64  `json:"grown"` // since a process's first reading
}

// NativeFrame is a frame of a stack. Bytes are the whole stack's.
type NativeFrame struct {
	Stack int64  `json:"stack"`
	Bytes int64  `json:"bytes"`
	Func  string `json:"func"`
	File  string `json:"file"`
	Line  int    `json:"lineno"`
}

// nativeGrown is the newest reading of each process beside its first; a stack that is gone has no bytes now.
const nativeGrown = `WITH span AS (SELECT pid, min(ts) AS first, max(ts) AS last FROM native.live GROUP BY pid),
 held AS (SELECT stack, site, called, bytes * (ts = last)::INT AS bytes, bytes * (ts = first)::INT AS was,
  (bytes_high - bytes_low) / 2.0 * (ts = last)::INT AS half
  FROM native.live JOIN span USING (pid) WHERE ts = last OR ts = first)
 `

// NativeLines are the lines whose calls hold most.
const NativeLines Of[NativeLine] = nativeGrown + `SELECT coalesce(site, '') AS site, coalesce(called, '') AS called,
 sum(bytes)::BIGINT AS bytes, sqrt(sum(half ** 2))::BIGINT AS half, sum(bytes - was)::BIGINT AS grown
 FROM held WHERE stack != 0 GROUP BY ALL HAVING sum(bytes) > 0 ORDER BY bytes DESC, site LIMIT 100`

// NativeStacks are the stacks that hold something now, frame by frame.
const NativeStacks Of[NativeFrame] = nativeGrown + `SELECT stack, bytes::BIGINT AS bytes,
 coalesce(func, '(smaller stacks)') AS func,
 coalesce(file, '') AS file, coalesce(lineno, 0) AS lineno
 FROM (SELECT stack, sum(bytes) AS bytes FROM held GROUP BY stack HAVING sum(bytes) > 0)
 LEFT JOIN native.stacks USING (stack) ORDER BY stack, depth`

// NativeHeld is a stack at a moment, over all processes.
type NativeHeld struct {
	Stack   int64   `json:"stack"`
	Bytes   int64   `json:"bytes"`
	Half    float64 `json:"half"` // half of the 95 % interval
	Count   int64   `json:"count"`
	Samples int64   `json:"samples"`
	Site    string  `json:"site"`
	Called  string  `json:"called"`
}

// NativeMoment chooses a reading of each process.
type NativeMoment string

// The moments that are chosen by what they are; After is one by its time.
const (
	NativeNow   NativeMoment = "SELECT pid, max(ts) AS ts FROM native.live GROUP BY pid"
	NativeStart NativeMoment = "SELECT pid, min(ts) AS ts FROM native.live GROUP BY pid"
	NativePeak  NativeMoment = `SELECT pid, arg_max(ts, total) AS ts
 FROM (SELECT pid, ts, sum(bytes) AS total FROM native.live GROUP BY pid, ts) GROUP BY pid`
	// NativeSettled is a quarter of the recorded time after its begin: imports and first steps are no leak.
	NativeSettled NativeMoment = `SELECT pid, max(ts) AS ts FROM native.live JOIN (SELECT pid,
 min(ts) + (max(ts) - min(ts)) / 4 AS until FROM native.live GROUP BY pid) USING (pid) WHERE ts <= until GROUP BY pid`
)

// NativeAfter is the last reading until so many µs after the first.
func NativeAfter(us int64) NativeMoment {
	return NativeMoment(fmt.Sprintf(`SELECT pid, max(ts) AS ts FROM native.live
 WHERE ts <= (SELECT min(ts) FROM native.live) + INTERVAL %d MICROSECONDS GROUP BY pid`, us))
}

// NativeAt lists what was held at a moment, by stack.
func NativeAt(m NativeMoment) Of[NativeHeld] {
	return Of[NativeHeld](`SELECT stack, sum(bytes)::BIGINT AS bytes,
 sqrt(sum(((bytes_high - bytes_low) / 2.0) ** 2)) AS half,
 sum("count")::BIGINT AS count, sum(samples)::BIGINT AS samples, coalesce(any_value(site), '') AS site,
 coalesce(any_value(called), '') AS called
 FROM native.live JOIN (` + string(m) + `) USING (pid, ts) GROUP BY stack ORDER BY bytes DESC, stack`)
}

// NativeScatter is how far a line's readings are off a straight line.
type NativeScatter struct {
	Site   string  `json:"site"`
	Called string  `json:"called"`
	Off    float64 `json:"off"` // standard deviation in bytes, over all processes
}

// NativeSmaller stands for the site of the stacks that have no row of their own.
const NativeSmaller = "(smaller stacks)"

// NativeOff tells it of the readings between two moments. Of a process with fewer than three nothing is known.
func NativeOff(from, to NativeMoment) Of[NativeScatter] {
	return Of[NativeScatter](`WITH ends AS (SELECT pid, a.ts AS a, b.ts AS b
 FROM (` + string(from) + `) a JOIN (` + string(to) + `) b USING (pid)),
 moments AS (SELECT DISTINCT pid, ts FROM native.live JOIN ends USING (pid)
 WHERE ts BETWEEN least(a, b) AND greatest(a, b)),
 held AS (SELECT pid, ts, CASE stack WHEN 0 THEN ` + Quoted(NativeSmaller) + ` ELSE coalesce(site, '') END AS site,
 coalesce(called, '') AS called, sum(bytes)::DOUBLE AS bytes
 FROM native.live JOIN moments USING (pid, ts) GROUP BY ALL),
 points AS (SELECT pid, site, called, epoch(ts) AS x, coalesce(bytes, 0) AS y FROM moments
 JOIN (SELECT DISTINCT pid, site, called FROM held) USING (pid) LEFT JOIN held USING (pid, ts, site, called)),
 fits AS (SELECT site, called, (regr_syy(y, x) - regr_sxy(y, x) ** 2 / regr_sxx(y, x)) / (count(*) - 2) AS variance
 FROM points GROUP BY pid, site, called HAVING count(*) > 2)
 SELECT site, called, sqrt(sum(greatest(variance, 0))) AS off FROM fits GROUP BY ALL`)
}

// NativeFrames are every stack's, innermost first.
const NativeFrames Of[NativeFrame] = `SELECT stack, 0 AS bytes, func, coalesce(file, '') AS file,
 coalesce(lineno, 0) AS lineno FROM native.stacks ORDER BY stack, depth`

// NativeBefore is what a process had allocated before its samples began, where they did not begin with it.
type NativeBefore struct {
	PID   int32  `json:"pid"`
	Since string `json:"since"`
	Bytes int64  `json:"bytes"` // of private memory
	Own   int64  `json:"own"`   // what samples take of the process's memory, at most
	// Unseen are the allocators that are linked into modules, with these: what they hand out has no samples.
	Unseen string `json:"unseen"`
}

// String says what is in no line.
func (b NativeBefore) String() string {
	since := b.Since
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		since = at.Local().Format("15:04:05")
	}
	text := fmt.Sprintf("process %d: allocated before %s, when samples began: %s, not known by line", b.PID, since,
		units.Bytes(b.Bytes))
	if b.Unseen != "" {
		text += "; not seen is what it allocates by " + b.Unseen
	}
	return text
}

// NativeUnknown lists it, by the last attach of each process.
const NativeUnknown Of[NativeBefore] = `SELECT pid, strftime(max(ts), '%Y-%m-%dT%H:%M:%SZ') AS since,
 arg_max(a, ts)::BIGINT AS bytes, arg_max(b, ts)::BIGINT AS own,
 coalesce(arg_max(coalesce(text, ''), ts), '') AS unseen
 FROM memgauge.events WHERE name = 'native' GROUP BY pid ORDER BY pid`

// NativeReadings counts them.
const NativeReadings Of[Number] = "SELECT count(*) AS n FROM native.live"
