package analyse

import (
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// mostReadings of the host are remembered from one judging to the next, 4 MB: a day's and more at one a second.
const mostReadings = 100_000

// hosts is how the host's memory went until a moment behind which nothing of it comes any more.
type hosts struct {
	track
	trainer int32 // the process whose steps the readings have
	rows    int64 // of the tables until then: fewer later, where the oldest were thinned or dropped
	read    int   // rows, of all readings, for tests
}

// limits reads what host memory runs into first, and how what is charged to it went.
func (l *loader) limits() error {
	if read, err := l.has("host.memory"); err != nil || !read || l.end() == 0 {
		return err
	}
	known := &hosts{}
	if s := l.o.Sources; s != nil && l.o.Until == 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		known = &s.hosts
	}
	if err := l.forgetHosts(known); err != nil {
		return err
	}
	host := known.track
	host.readings = slices.Clone(host.readings)
	until, settled := l.asOf(), l.end()
	if c := l.clocks[l.trainer]; c != nil && len(c.us) > 0 {
		settled = c.last() // a reading behind it may yet get a later step
	}
	kept, count := known.track, len(known.readings)
	err := l.all(fmt.Sprintf(HostSQL, int64(known.last), MaxReadings), func(v []any) {
		known.read++
		us := number(v[0])
		if us > until && len(host.readings) > 0 {
			return
		}
		host.addHost(us, v)
		if us <= settled {
			kept, count = host, len(host.readings)
		}
	})
	l.host = host.room(l.end())
	if err != nil || count > mostReadings {
		*known = hosts{read: known.read}
		return err
	}
	known.track, known.trainer = kept, l.trainer
	known.readings = slices.Clone(host.readings[:count])
	known.rows, err = l.hostRows(known.last)
	return err
}

// addHost adds a row of HostSQL.
func (t *track) addHost(us float64, v []any) {
	h := forecast.Host{Total: orUnknown(v[2]), Available: orUnknown(v[3]), Current: orUnknown(v[4]),
		Limit: orUnknown(v[5]), InactiveFile: orUnknown(v[6]), Active: orUnknown(v[7]), Dirty: orUnknown(v[8]),
		Writeback: orUnknown(v[9]), SlabReclaimable: orUnknown(v[10])}
	room := h.Room()
	limit := room.Limit
	if room.Kind == "host" { // in a cgroup it is what the host has left; people know its size
		limit = h.Total
	}
	t.add(us, number(v[1]), float64(room.Used), float64(room.Used), number(v[11]), float64(room.Limit),
		room.Kind+" "+units.Bytes(limit).String())
}

// forgetHosts forgets what is known where the tables have other rows of that time now, or others' steps count.
func (l *loader) forgetHosts(known *hosts) error {
	if len(known.readings) == 0 {
		return nil
	}
	rows, err := l.hostRows(known.last)
	if rows != known.rows || l.trainer != known.trainer {
		*known = hosts{read: known.read}
	}
	return err
}

// hostRows counts what HostSQL reads up to a time.
func (l *loader) hostRows(until float64) (rows int64, err error) {
	for _, table := range []string{"host.memory", "cgroup.memory", "process.memory"} {
		sql := fmt.Sprintf("SELECT count(*) FROM %s WHERE epoch_us(ts) <= %d", table, int64(until))
		if err := l.all(sql, func(v []any) { rows += integer[int64](v[0]) }); err != nil {
			return 0, err
		}
	}
	return rows, nil
}
