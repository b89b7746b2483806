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

// TestImpossibleShorts: so do those of the smaller types: whole numbers of 32 bits, and floating-point ones.
func TestImpossibleShorts(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	shorts := []int{math.MaxInt32, math.MinInt32, 1 << 30, -1 << 30, 7}
	floats := []float64{math.MaxFloat64, math.NaN(), math.Inf(1), math.Inf(-1), 0.5}
	fields := []frame.Field{tsField, {Name: "world_size", Type: frame.Int32}, {Name: "duration", Type: frame.Float64}}
	appended(t, w, framed(stranger(1, len(shorts)), fields, func(name string, row int) any {
		switch name {
		case "ts":
			return began
		case "world_size":
			return shorts[row]
		}
		return floats[row]
	}))
	for sql, want := range map[string]string{
		"SELECT max(world_size + world_size), max(-world_size) FROM python.steps":                  "14,-7",
		"SELECT stddev_pop(duration), kurtosis(duration) IS NULL, max(duration) FROM python.steps": "0.0,true,0.5",
		"SELECT count(world_size), count(duration), count(*) FROM python.steps":                    "1,1,5",
	} {
		if got := csv(t, Choice{Location: dir}, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
