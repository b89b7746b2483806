package analyse

import (
	"fmt"
	"math"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// deviceSeries reads floors of each device's allocator.
func (l *loader) deviceSeries() error {
	type place struct {
		pid    int32
		device float64 // its number in the database
	}
	type one struct {
		floors
		name string
	}
	extents, by := map[int32]*extent{}, map[place]*one{}
	var order []place
	sql := fmt.Sprintf(`SELECT pid, device::VARCHAR, enum_code(device), coalesce(inference, true), min(step), max(step)
 FROM python.step_devices WHERE step%s GROUP BY pid, device, coalesce(inference, true) ORDER BY pid, device`, l.upTo())
	err := l.all(sql, func(v []any) {
		at := place{integer[int32](v[0]), number(v[2])}
		e := extents[at.pid]
		if e == nil {
			e = newExtent(l.extents[at.pid].hasTraining())
			extents[at.pid] = e
		}
		if !e.counts(v[3] == true) {
			return
		}
		e.widen(number(v[4]), number(v[5]))
		if by[at] == nil {
			by[at] = &one{floors{count: 4}, word(v[1])}
			order = append(order, at)
		}
	})
	if err != nil || len(by) == 0 {
		return err
	}
	sql = `SELECT pid, enum_code(device), coalesce(inference, true), step, allocated, reserved, max_allocated
 FROM python.step_devices WHERE step` + l.upTo()
	err = l.floats(sql, func(v []float64) {
		at := place{int32(v[0]), v[1]}
		d, e := by[at], extents[at.pid]
		if d == nil || !e.counts(v[2] != 0) {
			return
		}
		i, step := e.bucket(v[3]), v[3]
		d.take(i, 0, step, v[4])
		d.take(i, 1, step, v[5])
		d.take(i, 2, step, v[6])
		d.take(i, 3, step, v[5]-v[4])
	})
	for _, at := range order {
		d := device(l.process(at.pid), by[at].name)
		d.Allocated, d.Reserved = by[at].series(0), by[at].series(1)
		d.Peak, d.Cached = by[at].series(2), by[at].series(3)
	}
	return err
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
	if told, err := l.has("gpu.devices"); err != nil || !told {
		return err
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
