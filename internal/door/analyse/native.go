package analyse

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// mostLines of a process are read: those that hold most at the end.
const mostLines = 64

// native reads what native code held, by line, where it was sampled. Arenas of Python's allocator are left out: what
// lies in them the censuses know.
func (l *loader) native() error {
	if l.counts["native_live"] == 0 {
		return nil
	}
	const sql = `WITH held AS (SELECT pid, ts, coalesce(site, '') AS site, called, sum(bytes)::DOUBLE AS bytes
 FROM native.live WHERE stack != 0 AND called IS NOT NULL AND called NOT LIKE '%%PyObject_Arena%%'
 GROUP BY ALL),
 lines AS (SELECT pid, site, called FROM held GROUP BY pid, site, called
 QUALIFY row_number() OVER (PARTITION BY pid ORDER BY arg_max(bytes, ts) DESC, site, called) <= %d),
 moments AS (SELECT DISTINCT pid, ts FROM native.live)
 SELECT m.pid, l.site, l.called, epoch_us(m.ts)::DOUBLE, coalesce(h.bytes, 0)
 FROM moments m JOIN lines l USING (pid)
 LEFT JOIN held h ON h.pid = m.pid AND h.ts = m.ts AND h.site = l.site AND h.called = l.called
 ORDER BY m.pid, l.site, l.called, m.ts`
	if err := l.unsampled(); err != nil {
		return err
	}
	type series struct {
		pid          int32
		site, called string
		us, bytes    []float64
	}
	var list []series
	err := l.all(fmt.Sprintf(sql, mostLines), func(v []any) {
		pid, site, called := integer[int32](v[0]), word(v[1]), word(v[2])
		if l.processes[pid] == nil || number(v[3]) > l.until {
			return
		}
		if n := len(list); n == 0 || list[n-1].pid != pid || list[n-1].site != site || list[n-1].called != called {
			list = append(list, series{pid: pid, site: site, called: called})
		}
		s := &list[len(list)-1]
		s.us, s.bytes = append(s.us, number(v[3])), append(s.bytes, number(v[4]))
	})
	for _, s := range list {
		p := l.processes[s.pid]
		if xs, ok := l.stepsOf(s.pid, s.us, p); ok {
			p.Native = append(p.Native, detect.NativeSeries{Site: s.site, Called: s.called,
				Held: detect.Series{Steps: xs, Bytes: s.bytes}})
		}
	}
	return err
}

// unsampled reads what was allocated before samples began, in processes that were attached to.
func (l *loader) unsampled() error {
	const sql = `SELECT pid, strftime(max(ts), '%H:%M:%S UTC'), arg_max(a, ts)::DOUBLE FROM memgauge.events
 WHERE name = 'native' GROUP BY pid`
	return l.all(sql, func(v []any) {
		if p := l.processes[integer[int32](v[0])]; p != nil {
			p.Unsampled = fmt.Sprintf("samples began at %s: %s of private memory from before are not known by line",
				word(v[1]), units.Bytes(number(v[2])))
		}
	})
}
