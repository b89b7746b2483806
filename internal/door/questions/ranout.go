package questions

import "fmt"

// Held is what a process, a cgroup or a device held at a moment around the one at which memory ran out.
type Held struct {
	Micros int64   `json:"t"`
	Scope  string  `json:"scope"`
	PID    *int    `json:"pid"`
	Name   *string `json:"name"`
	Bytes  int64   `json:"bytes"`
}

// Exhausted is the event that reported that memory ran out.
type Exhausted struct {
	Micros int64  `json:"t"`
	Name   string `json:"name"`
	Text   string `json:"text"`
	A      *int64 `json:"a"` // oom: requested bytes, 0 unknown
	B      *int64 `json:"b"` // oom: the CUDA device, -1 the host; oom_kill: the limit
	Hole   *int64 `json:"hole"`
}

// RanOut is the last time that memory ran out. The same process reports the hole a moment after the failure.
const RanOut Of[Exhausted] = `SELECT epoch_us(e.ts) AS t, e.name, e.text, e.a, e.b,
		(SELECT h.a FROM memgauge.events h WHERE h.name = 'oom_hole' AND h.pid = e.pid AND h.b = e.b AND e.name = 'oom'
		AND h.ts BETWEEN e.ts AND e.ts + INTERVAL 10 SECOND ORDER BY h.ts LIMIT 1) AS hole
	FROM memgauge.events e WHERE e.name IN ('oom', 'oom_kill') ORDER BY e.ts DESC LIMIT 1`

// Minute is what was held around a time at which memory ran out (µs since the epoch). Of several events at once, it is
// stored with the first.
func Minute(at int64) Of[Held] {
	return Of[Held](fmt.Sprintf(`SELECT epoch_us(ts) AS t, scope, pid, name, bytes FROM memgauge.event_window
	WHERE event_ts = (SELECT max(event_ts) FROM memgauge.event_window) AND abs(epoch_us(event_ts) - %d) < 60e6
	ORDER BY ts`, at))
}
