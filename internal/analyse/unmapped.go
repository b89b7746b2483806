package analyse

import (
	"math"
)

// unmapped reads the shared memory that is charged to the job's cgroup and that no process maps: files in memory whose
// descriptors alone are kept, blocks in /dev/shm that nobody removed. What several processes map counts once for each
// of them, so that what is left is never too much. A cgroup with processes of others beside the job's says nothing of
// the job, and where the session itself lies in memory its database grows there.
func (l *loader) unmapped() error {
	c := l.clocks[l.trainer]
	if c == nil || len(c.us) < 2 || l.most == 0 {
		return nil
	}
	const sql = `WITH mapped AS (SELECT ts, sum(shmem)::BIGINT AS shmem FROM process.memory GROUP BY ts)
 SELECT epoch_us(j.ts)::DOUBLE, (j.shmem - coalesce(m.shmem, 0))::DOUBLE
 FROM cgroup.memory j LEFT JOIN mapped m ON m.ts = j.ts WHERE j.shmem IS NOT NULL
 QUALIFY row_number() OVER (PARTITION BY j.ts ORDER BY j.limit_bytes - j.current NULLS LAST) = 1
 ORDER BY j.ts`
	shmem := &l.process(l.trainer).Unmapped
	return l.all(sql, func(v []any) {
		us := number(v[0])
		if us < c.first() || us > min(c.last(), l.until) {
			return
		}
		shmem.Steps, shmem.Bytes = append(shmem.Steps, c.at(us)), append(shmem.Bytes, math.Max(0, number(v[1])))
	})
}
