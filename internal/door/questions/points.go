package questions

import (
	"fmt"
	"strings"
)

// Shown is a process as other tools' viewers show it.
type Shown struct {
	PID     int
	Rank    *int
	Role    string
	Command string
	Steps   int64 // of training
	Peak    int64
	Curve   bool // it was read in two seconds or more
}

// AllShown are the trainers by rank, then the others from the largest.
const AllShown Of[Shown] = `WITH s AS (SELECT pid, count(*) AS steps FROM python.steps WHERE NOT inference GROUP BY pid)
	SELECT a.pid, coalesce(any_value(t.rank), any_value(p.rank)) AS rank,
		CASE WHEN any_value(s.steps) > 0 THEN 'trainer'
			ELSE coalesce(arg_max(t.role, t.last_seen), 'other') END AS role,
		coalesce(arg_max(t.command, t.last_seen), any_value(p.argv), '') AS command,
		coalesce(any_value(s.steps), 0) AS steps, max(coalesce(t.peak_rss, 0)) AS peak,
		coalesce(any_value(m.curve), false) AS curve
	FROM (SELECT pid FROM process.tree UNION SELECT pid FROM s) a LEFT JOIN process.tree t USING (pid)
		LEFT JOIN memgauge.processes p USING (pid) LEFT JOIN s USING (pid)
		LEFT JOIN (SELECT pid, epoch_us(max(ts)) // 1000000 > epoch_us(min(ts)) // 1000000 AS curve
			FROM process.memory GROUP BY pid) m USING (pid)
	GROUP BY a.pid ORDER BY coalesce(any_value(s.steps), 0) = 0, rank NULLS LAST, peak DESC, a.pid`

// Stretch is a process's steps from Low to High.
type Stretch struct {
	I, PID    int // I is the asker's number for it
	Low, High int64
}

// Dated is when a stretch was, in µs since the epoch.
type Dated struct {
	I        int
	From, To int64
}

// Dates are when stretches were; one of which no step is known has none.
func Dates(list []Stretch) Of[Dated] {
	values := make([]string, len(list))
	for i, s := range list {
		values[i] = fmt.Sprintf("(%d, %d, %d, %d)", s.I, s.PID, s.Low, s.High)
	}
	return Of[Dated](`SELECT v.i, epoch_us(min(s.ts)) AS "from", epoch_us(max(s.ts)) AS "to"
	FROM (VALUES ` + strings.Join(values, ", ") + `) v(i, pid, low, high)
	JOIN python.steps s ON s.pid = v.pid AND s.step >= v.low AND s.step <= v.high GROUP BY v.i`)
}

// StepPoint is what a process held at a step, or at the last of several; Highest in any of them.
type StepPoint struct {
	Step                                              int64
	At                                                int64 `json:"moment"` // µs since the epoch
	Device                                            *string
	Duration, Allocated, Highest, Reserved, RSS, Anon *float64
	HeapInUse                                         *float64
}

// StepPoints are those of a process, of which every so many steps make one.
func StepPoints(pid int, stride int64) Of[StepPoint] {
	return Of[StepPoint](fmt.Sprintf(`SELECT max(step) AS step, max(epoch_us(ts)) AS moment,
		sum(duration) / sum(steps) AS duration, arg_max(device, step) AS device, arg_max(allocated, step) AS allocated,
		max(max_allocated) AS highest, arg_max(reserved, step) AS reserved, arg_max(rss, step) AS rss,
		arg_max(anon, step) AS anon, arg_max(heap_in_use, step) AS heapinuse
	FROM python.steps WHERE pid = %d AND NOT inference GROUP BY step // %d ORDER BY step`, pid, stride))
}

// MemoryPoint is what the kernel counted of a process, the most of each in its time.
type MemoryPoint struct {
	At                           int64 `json:"moment"` // µs since the epoch
	RSS, Anon, File, Shmem, Swap *float64
}

// MemoryPoints are those of a process, one of every second or, so that most are left, of every few.
func MemoryPoints(pid, most int) Of[MemoryPoint] {
	return Of[MemoryPoint](fmt.Sprintf(`SELECT epoch_us(max(ts)) AS moment, max(rss) AS rss, max(anon) AS anon,
		max(file) AS file, max(shmem) AS shmem, max(swap) AS swap
	FROM process.memory WHERE pid = %d GROUP BY epoch_us(ts) // (1000000 *
		(SELECT 1 + count(*) // %d FROM process.memory WHERE pid = %d)) ORDER BY moment`, pid, most, pid))
}

// Whole is all rows of a table.
func Whole(table string) string { return "FROM " + table }
