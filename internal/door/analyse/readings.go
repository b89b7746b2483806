package analyse

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// HostSQL is each reading of the host with the job's cgroup and the steps done by then, after a time in µs since the
// epoch, at most so many: t, step, total, available, current, limit_bytes, inactive_file, active_file, file_dirty,
// file_writeback, slab_reclaimable, mapped. Of several cgroups the one with the least room counts. The step is that of
// the process that has made most.
const HostSQL = `WITH trainer AS (SELECT pid FROM python.steps GROUP BY pid ORDER BY max(step) DESC LIMIT 1),
	made AS (SELECT ts, step FROM python.steps WHERE pid = (SELECT pid FROM trainer)),
	done AS (SELECT ts, max(step)::DOUBLE AS step FROM made
	  WHERE ts >= (SELECT coalesce(max(ts) FILTER (epoch_us(ts) <= %[1]d), min(ts)) FROM made) GROUP BY ts),
	mapped AS (SELECT ts, sum(file)::BIGINT AS mapped FROM process.memory WHERE epoch_us(ts) > %[1]d GROUP BY ts),
	job AS (SELECT * FROM cgroup.memory WHERE epoch_us(ts) > %[1]d QUALIFY row_number() OVER (PARTITION BY ts ORDER BY limit_bytes - current NULLS LAST) = 1)
	SELECT epoch_us(h.ts) AS t, d.step, h.total, h.available, j.current, j.limit_bytes, j.inactive_file, j.active_file,
	  j.file_dirty, j.file_writeback, j.slab_reclaimable, m.mapped
	FROM (SELECT * FROM host.memory WHERE epoch_us(ts) > %[1]d ORDER BY ts DESC LIMIT %[2]d) h
	LEFT JOIN job j ON j.ts = h.ts LEFT JOIN mapped m ON m.ts = h.ts ASOF LEFT JOIN done d ON d.ts <= h.ts ORDER BY h.ts`

// DeviceSQL is each reading of a device by the driver, or each step by the job's allocator, after a time, at most so
// many: t, device_id, step, used, peak, reserved, total, allocator, device (as PyTorch names it), whole (the device's
// size). The job's allocator tells more than the driver: what a step frees, and its peak. Where there is one on the
// device, its rows are taken, and what the driver counts beyond the allocator's memory lowers the limit.
const DeviceSQL = `WITH n AS (SELECT DISTINCT device_id, device FROM (` + cudaNames + `)),
	own AS (SELECT s.ts, coalesce(n.device_id, replace(s.device::VARCHAR, 'cuda:', '')::INTEGER) AS device_id, s.device::VARCHAR AS device,
	    max(s.step)::DOUBLE AS step, sum(s.allocated)::BIGINT AS used, sum(s.max_allocated)::BIGINT AS peak, sum(s.reserved)::BIGINT AS reserved
	    FROM python.step_devices s LEFT JOIN n ON n.device = s.device::VARCHAR WHERE epoch_us(s.ts) > %[1]d GROUP BY ALL),
	driver AS (SELECT ts, device_id, used_bytes, total_bytes FROM gpu.utilization WHERE epoch_us(ts) > %[1]d),
	own_seen AS (SELECT o.ts, o.device_id, o.device, o.step, o.used, o.peak, o.reserved,
	    d.total_bytes - greatest(0, d.used_bytes - o.reserved) AS total, d.total_bytes AS whole FROM own o
	    ASOF LEFT JOIN driver d ON d.device_id = o.device_id AND d.ts <= o.ts)
	SELECT epoch_us(ts) AS t, device_id, step, used, peak, reserved, total, true AS allocator, device, whole FROM own_seen
	UNION ALL SELECT epoch_us(ts), device_id, NULL, used_bytes, used_bytes, used_bytes, total_bytes, false, NULL, total_bytes FROM driver
	    WHERE device_id NOT IN (SELECT device_id FROM own_seen WHERE total IS NOT NULL)
	ORDER BY t LIMIT %[2]d`

// MaxReadings of one question: a week at one a second. What is older is left out.
const MaxReadings = 700_000

// kept is how many readings a forecast goes by, as many as a watch keeps: the two name the same time.
const kept = 10_000

// track is how one memory went, and its limit by the last reading, in bytes.
type track struct {
	readings    []forecast.Reading
	first, last float64 // µs since the epoch
	limit       float64
	kind        string // of the limit: cgroup, host, device
	size        int64  // bytes, by which people know it
}

func (t *track) add(us, step, used, peak, mapped, limit float64) {
	if len(t.readings) == 0 {
		t.first = us
	}
	t.last, t.limit = us, limit
	t.readings = append(t.readings, forecast.Reading{Time: (us - t.first) / 1e6, Step: step, Floor: used,
		Peak: max(peak, used), Mapped: mapped})
}

// room is the limit with all that a forecast goes by. end is the moment that the verdict is as of, in µs since the
// epoch.
func (t *track) room(end float64) detect.Limit {
	if len(t.readings) == 0 {
		return detect.Limit{}
	}
	return detect.Limit{Name: t.kind + " " + units.Bytes(t.size).String(), Bytes: t.limit,
		Used: t.readings[len(t.readings)-1].Floor, Readings: forecast.Thin(t.readings, kept), Lag: (end - t.last) / 1e6}
}

// asOf is until when readings count, in µs since the epoch: of a run that is over, and of one that is judged as of a
// step, what was read later says nothing.
func (l *loader) asOf() float64 {
	if l.over || l.o.Until > 0 {
		return l.end()
	}
	return math.Inf(1)
}

// deviceLimits reads the same of each device. Of memory that PyTorch's allocator holds and could hand out again nothing
// is in use.
func (l *loader) deviceLimits() error {
	if l.counts["gpu_utilization"] == 0 { // without the driver nobody knows how large a device is
		return nil
	}
	tracks := map[string]*track{}
	until := l.asOf()
	err := l.all(fmt.Sprintf(DeviceSQL, 0, MaxReadings), func(v []any) {
		us, total := number(v[0]), number(v[6])
		if us > until || v[3] == nil || total <= 0 || v[8] == nil {
			return
		}
		name := fmt.Sprint(v[8])
		if tracks[name] == nil {
			tracks[name] = &track{}
		}
		tracks[name].add(us, number(v[2]), number(v[3]), number(v[4]), 0, total)
		tracks[name].kind, tracks[name].size = "device", integer[int64](v[9])
	})
	for _, p := range l.processes {
		for i := range p.Devices {
			if t := tracks[p.Devices[i].Name]; t != nil {
				p.Devices[i].Limit = t.room(l.end())
			}
		}
	}
	return err
}
