package lake

import (
	"math"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

// TestImpossibleValues: numbers and times beyond all that is real fail no question that reckons with everybody's.
func TestImpossibleValues(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	appended(t, w, batch(t, 0, 0))
	extremes := []int64{math.MinInt64, math.MaxInt64, math.MinInt64 + 1, 1 << 62, -1 << 62, 7}
	value := func(name string, row int) any {
		if name == "ts" {
			return time.UnixMicro(extremes[row])
		}
		return extremes[row]
	}
	appended(t, w, framed(stranger(1, len(extremes)), []frame.Field{tsField, stepField}, value))
	for sql, want := range map[string]string{
		"SELECT max(step) - min(step) >= 0 FROM python.steps":                               "true",
		"SELECT count(date_trunc('hour', ts)), count(epoch_us(ts) * 2) FROM python.steps":   "51,51",
		"SELECT count(step), count(*) FROM python.steps WHERE node = 'stranger'":            "1,6",
		"SELECT step, epoch_us(ts) FROM python.steps WHERE node = 'stranger' AND step >= 0": "7,7",
	} {
		if got := csv(t, Choice{Location: dir}, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
