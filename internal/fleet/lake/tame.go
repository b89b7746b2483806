package lake

import (
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// Bounds of values. A node may send any, and a question to all rows fails with the first on which its arithmetic does:
// the difference of two whole numbers within them still is one of their type, all parts of a date can be had of a time,
// and the fourth powers of floating-point numbers, which measures of spread add up, are finite.
const (
	maxWhole = 1<<62 - 1
	maxShort = 1<<30 - 1
)

var (
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	lastTime  = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC).UnixMicro()
)

// tame makes NULL of values that nothing of ours has.
func tame(r frame.Rows) frame.Rows {
	for k, f := range r.Fields() {
		switch f.Type {
		case frame.Int64:
			r = r.Within(k, -maxWhole, maxWhole)
		case frame.Int32:
			r = r.Within(k, -maxShort, maxShort)
		case frame.Float64:
			r = r.WithinFloat(k, -maxWhole, maxWhole)
		case frame.Time:
			r = r.Within(k, firstTime, lastTime)
		}
	}
	return r
}
