package analyse

import (
	"fmt"
	"math"
)

const (
	// besideBytes is what a cgroup may hold beside the job's processes for these to be alone in it: a collector and a
	// shell or two.
	besideBytes = 128 << 20
	// besideShare of the job's own memory is what the counts differ by: they are not read at the same moment.
	besideShare = 1.1
)

// unmapped reads the shared memory that is charged to the job's cgroup and that no process maps: files in memory whose
// descriptors alone are kept, blocks in /dev/shm that nobody removed. What several processes map counts once for each
// of them, so that what is left is never too much. A cgroup with processes of others beside the job's says nothing of
// the job: what these put into shared memory looks the same. Their anonymous memory shows them.
func (l *loader) unmapped() error {
	c := l.clocks[l.trainer]
	if c == nil || len(c.us) < 2 || l.most == 0 {
		return nil
	}
	if read, err := l.has("cgroup.memory"); err != nil || !read {
		return err
	}
	sql := fmt.Sprintf(`WITH job AS
 (SELECT ts, sum(shmem)::BIGINT AS shmem, sum(anon)::BIGINT AS anon FROM process.memory GROUP BY ts)
 SELECT epoch_us(j.ts)::DOUBLE, (j.shmem - coalesce(job.shmem, 0))::DOUBLE
 FROM cgroup.memory j LEFT JOIN job ON job.ts = j.ts
 WHERE j.shmem IS NOT NULL AND NOT coalesce(j.anon > %g * job.anon + %d, false)
 QUALIFY row_number() OVER (PARTITION BY j.ts ORDER BY j.limit_bytes - j.current NULLS LAST) = 1
 ORDER BY j.ts`, besideShare, besideBytes)
	shmem := &l.process(l.trainer).Unmapped
	return l.all(sql, func(v []any) {
		us := number(v[0])
		if us < c.first() || us > min(c.last(), l.until) {
			return
		}
		shmem.Steps, shmem.Bytes = append(shmem.Steps, c.at(us)), append(shmem.Bytes, math.Max(0, number(v[1])))
	})
}
