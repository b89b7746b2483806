package analyse

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// What is read of a device at a step's end, by its place among a bucket's floors.
const (
	allocated = iota
	reserved
	peak
	cached
)

// deviceEnds are the rows of python.step_devices.
var deviceEnds = stepRows{
	stored:  "step_devices",
	columns: `pid, coalesce(inference, true), enum_code(device)::DOUBLE, step, allocated, reserved, max_allocated`,
	take: func(d *digest, step float64, v []float64) {
		b := d.of(step)
		b.take(allocated, step, v[0])
		b.take(reserved, step, v[1])
		b.take(peak, step, v[2])
		b.take(cached, step, v[1]-v[0])
	},
	keep: func(s *Sources) *digests { return &s.devices },
}

// deviceSeries reads floors of each device's allocator.
func (l *loader) deviceSeries() error {
	return l.digest(&deviceEnds, func(s *digests) error {
		if len(s.of) == 0 {
			return nil
		}
		var names []string
		err := l.all("SELECT unnest(enum_range(NULL::main.device))::VARCHAR", func(v []any) {
			names = append(names, word(v[0]))
		})
		for _, k := range s.kinds() {
			if k.inference && l.trains(k.pid) || int(k.work) >= len(names) {
				continue
			}
			d := device(l.process(k.pid), names[int(k.work)])
			of := s.of[k]
			d.Allocated, d.Reserved, d.Peak, d.Cached = of.series(allocated), of.series(reserved), of.series(peak),
				of.series(cached)
		}
		return err
	})
}

// device is a process's by its name; it is made when it is first met.
func device(p *detect.Process, name string) *detect.DeviceSeries {
	for i := range p.Devices {
		if p.Devices[i].Name == name {
			return &p.Devices[i]
		}
	}
	p.Devices = append(p.Devices, detect.DeviceSeries{Name: name})
	return &p.Devices[len(p.Devices)-1]
}

// cudaNames says by what names the job's PyTorch knows the driver's devices.
const cudaNames = `SELECT device_id, 'cuda:' || coalesce(visible_as, device_id) AS device, total_bytes FROM gpu.devices`

// outside reads what the driver counts for each process beyond its allocator's reserve: contexts, communicators,
// libraries' own pools. Where the driver tells of no process (in containers it knows other PIDs), the whole device's
// count stands for its only process.
func (l *loader) outside() error {
	if l.counts["gpu_devices"] == 0 {
		return nil
	}
	const sql = `WITH n AS (%[1]s),
 s AS (SELECT ts, pid, device::VARCHAR AS device, reserved FROM python.step_devices WHERE reserved IS NOT NULL AND %[2]s%[3]s),
 x AS (%[4]s)
 SELECT x.pid, x.device, epoch_us(x.ts)::DOUBLE, (x.used - s.reserved)::DOUBLE
 FROM x ASOF JOIN s ON s.pid = x.pid AND s.device = x.device AND x.ts >= s.ts ORDER BY 1, 2, 3`
	const byProcess = `SELECT p.ts, p.pid, n.device, p.used_bytes AS used FROM gpu.processes p JOIN n USING (device_id)
   WHERE p.in_job AND p.used_bytes IS NOT NULL`
	const byDevice = `SELECT u.ts, o.pid, n.device, u.used_bytes AS used FROM gpu.utilization u JOIN n USING (device_id)
   JOIN (SELECT device, any_value(pid) AS pid FROM s GROUP BY device HAVING count(DISTINCT pid) = 1) o ON o.device = n.device
   WHERE u.used_bytes IS NOT NULL AND u.device_id NOT IN (SELECT device_id FROM gpu.processes)`
	for _, x := range []string{byProcess, byDevice} {
		err := l.all(fmt.Sprintf(sql, cudaNames, training, l.bound(), x), func(v []any) {
			p := l.process(integer[int32](v[0]))
			c, d := l.clocks[int32(p.PID)], device(p, fmt.Sprint(v[1]))
			if c == nil || number(v[2]) > l.until {
				return
			}
			x := math.NaN()
			if t := number(v[2]); t >= c.first() && t <= c.last() {
				x = c.at(t)
			}
			d.Outside.Steps, d.Outside.Bytes = append(d.Outside.Steps, x), append(d.Outside.Bytes, max(0, number(v[3])))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
