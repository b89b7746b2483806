package monitor

import (
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// HostState is what the kernel reports at one moment.
type HostState struct {
	Time   time.Time
	Step   float64
	Mapped int64 // bytes of files that the job's processes have mapped and touched; -1 not known
	forecast.Host
}

// Reading makes one reading of it.
func (s *HostState) Reading() Reading {
	room := s.Room()
	return Reading{Device: Host, Time: s.Time, Step: s.Step, Kind: room.Kind, Total: room.Limit, Reserved: room.Charged,
		Used: room.Used, Peak: room.Used, Mapped: max(0, s.Mapped)}
}
