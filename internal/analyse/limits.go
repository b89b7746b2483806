package analyse

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/detect"
	"github.com/memgauge/memgauge/internal/units"
)

const (
	// charges is how long before the end readings of what is charged count, in seconds: ten readings hit the peaks of steps.
	charges = 10
	// atOnce is how long after a process's last sample the kernel's kill is noticed at most, in µs: two samples and a step of some
	// seconds.
	atOnce = 5e6
	// brief is the share of a run below which a process that has ended was a part of it, and gave its memory back.
	brief = 1.0 / 3
)

// ends tells which processes will not go on, and which the kernel killed. Asked for an earlier step it knows of no end.
func (l *loader) ends() error {
	if l.o.Until > 0 {
		return nil
	}
	over := l.o.Over
	var kills [][2]float64 // pid (0: not known), µs
	err := l.all(`SELECT name, coalesce(pid, 0), epoch_us(ts)::DOUBLE FROM memgauge.events WHERE name IN ('end', 'oom_kill')`, func(v []any) {
		if fmt.Sprint(v[0]) == "end" {
			over = true
		} else {
			kills = append(kills, [2]float64{number(v[1]), number(v[2])})
		}
	})
	end := l.end()
	for pid, p := range l.processes {
		p.Gone = p.Gone || over
		for _, k := range kills {
			if k[0] == float64(pid) || p.Gone && math.Abs(k[1]-l.seen[pid]) < atOnce {
				p.Killed, p.Gone = true, true
			}
		}
		if life := l.seen[pid] - l.firstSeen(p); p.ByTime && !p.Killed && p.Gone && l.seen[pid] < end-2e6 && life < brief*(end-l.from0) {
			p.Ended = true
		}
	}
	return err
}

// firstSeen is the time of a process's first sample, in µs since the epoch.
func (l *loader) firstSeen(p *detect.Process) float64 {
	if len(p.Anon.Steps) == 0 {
		return l.from0
	}
	return l.from0 + 1e6*p.Anon.Steps[0]
}

// reading of what is charged to a limit.
type reading struct {
	us, limit, used float64
	path            string
}

// limits finds what host memory runs into first at the end of the run, and what was charged to it shortly before: without the clean page
// cache and the slab that the kernel takes back before it kills anybody.
func (l *loader) limits() error {
	end := l.end()
	if end == 0 {
		return nil
	}
	take := func(sql string) (list []reading, err error) {
		err = l.all(fmt.Sprintf(sql, end, end-charges*1e6), func(v []any) {
			list = append(list, reading{number(v[0]), orZero(v[1]), orZero(v[2]), fmt.Sprint(v[3])})
		})
		return list, err
	}
	cgroups, err := take(`WITH g AS (SELECT epoch_us(ts)::DOUBLE AS us, limit_bytes::DOUBLE AS most, path, current
   - greatest(0, coalesce(inactive_file, 0) + coalesce(active_file, 0) - coalesce(file_dirty, 0) - coalesce(file_writeback, 0))
   - coalesce(slab_reclaimable, 0) AS used FROM cgroup.memory WHERE limit_bytes IS NOT NULL AND current IS NOT NULL),
 last AS (SELECT coalesce(max(us) FILTER (us <= %[1]f), min(us)) AS us FROM g)
 SELECT g.us, g.most, greatest(0, g.used)::DOUBLE, g.path FROM g, last
 WHERE g.us <= last.us AND g.us >= least(%[2]f, last.us) ORDER BY g.us`)
	if err != nil {
		return err
	}
	hosts, err := take(`WITH h AS (SELECT epoch_us(ts)::DOUBLE AS us, total, available FROM host.memory WHERE total > 0 AND available IS NOT NULL),
 last AS (SELECT coalesce(max(us) FILTER (us <= %[1]f), min(us)) AS us FROM h)
 SELECT h.us, h.total::DOUBLE, (h.total - h.available)::DOUBLE, 'host' FROM h, last
 WHERE h.us <= last.us AND h.us >= least(%[2]f, last.us) ORDER BY h.us`)
	if err != nil {
		return err
	}
	l.bind("cgroup ", cgroups, end)
	l.bind("host ", hosts, end)
	return nil
}

// bind takes a limit that leaves less room than the one before. Of several cgroups the one with the least room counts.
func (l *loader) bind(kind string, list []reading, end float64) {
	if len(list) == 0 {
		return
	}
	tight := list[len(list)-1]
	for _, r := range list {
		if r.us == tight.us && r.limit-r.used < tight.limit-tight.used {
			tight = r
		}
	}
	if l.host.Bytes > 0 && tight.limit-tight.used >= l.host.Bytes-l.host.Used {
		return
	}
	l.host = detect.Limit{Name: kind + units.Bytes(tight.limit).String(), Bytes: tight.limit, Used: tight.used}
	l.charged = detect.Series{}
	for _, r := range list {
		if r.path == tight.path {
			l.charged.Steps, l.charged.Bytes = append(l.charged.Steps, max(0, (end-r.us)/1e6)), append(l.charged.Bytes, r.used)
		}
	}
}
