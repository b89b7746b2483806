package page

import (
	"fmt"

	"github.com/memgauge/memgauge/internal/detect"
)

// Readings is the statement that reads a memory over the steps; "" where none can.
func Readings(f *detect.Finding) string {
	const (
		atSteps = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.steps
			WHERE pid = %[1]d AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		onDevice = `SELECT max(step)::DOUBLE AS step, min(%[2]s)::DOUBLE AS bytes FROM python.step_devices
			WHERE pid = %[1]d AND device = '%[3]s' AND %[2]s IS NOT NULL GROUP BY ts ORDER BY 1`
		// Readings by time are assigned to the steps of the process that makes the most.
		byTime = `WITH trainer AS (SELECT pid FROM python.steps GROUP BY pid ORDER BY max(step) DESC LIMIT 1),
			done AS (SELECT ts, max(step)::DOUBLE AS step FROM python.steps WHERE pid = (SELECT pid FROM trainer)
				GROUP BY ts)
			SELECT d.step, m.%[2]s::DOUBLE AS bytes FROM process.memory m ASOF JOIN done d ON d.ts <= m.ts
			WHERE m.pid = %[1]d AND m.%[2]s IS NOT NULL ORDER BY m.ts`
	)
	switch f.Memory {
	case detect.Heap:
		return fmt.Sprintf(atSteps, f.PID, "heap_in_use")
	case detect.Private:
		return fmt.Sprintf(atSteps, f.PID, "anon - heap_held")
	case detect.Anon:
		return fmt.Sprintf(atSteps, f.PID, "anon")
	case detect.Device:
		return fmt.Sprintf(onDevice, f.PID, "allocated", f.Device)
	case detect.Reserved:
		return fmt.Sprintf(onDevice, f.PID, "reserved", f.Device)
	case detect.Worker:
		return fmt.Sprintf(byTime, f.PID, "anon")
	case detect.Shared:
		return fmt.Sprintf(byTime, f.PID, "shmem")
	case detect.Mapped:
		return fmt.Sprintf(byTime, f.PID, "file")
	}
	return ""
}
