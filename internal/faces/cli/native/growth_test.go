package native

import (
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/fakesession"
)

const mib = 1 << 20

// noisy has readings of ten minutes: a line that leaks 4 MiB a minute, and large ones whose memory comes and goes, of
// which one loads 300 MiB for good in the middle, and one is known by a few samples.
func noisy(random *rand.Rand) (rows []model.NativeLive) {
	for i := range 60 {
		held := map[string]float64{"leak.py:1": float64(i) * 2 / 3, "load.py:1": 300}
		if i < 30 {
			held["load.py:1"] = 0
		}
		for n := range 6 {
			held[fmt.Sprintf("step.py:%d", n)] = 500 + 150*random.NormFloat64()
		}
		held["rare.py:1"] = 200 + 40*random.NormFloat64()
		for site, m := range held {
			half := int64(m * mib / 20)
			if site == "rare.py:1" {
				half = 80 * mib
			}
			bytes := int64(m * mib)
			rows = append(rows, model.NativeLive{
				Time: fakesession.Started.UnixMicro() + int64(i)*10_000_000, PID: 7, Rank: -1,
				Stack: int64(crc32.ChecksumIEEE([]byte(site))), Bytes: bytes, Low: bytes - half, High: bytes + half,
				Count: 10, Samples: 10, Interval: 1 << 17, Site: site, Called: "malloc (libx.so)"})
		}
	}
	return rows
}

// TestLeakFirst: a small leak that is steady stands before large lines that differ by more between two moments.
func TestLeakFirst(t *testing.T) {
	const seeds = 4
	first := 0
	for seed := range uint64(seeds) {
		done := fakesession.Finished(t)
		done.Rows = fakesession.Stored(t, &model.Batch{NativeLive: noisy(rand.New(rand.NewPCG(seed, 1)))})
		s := session{done}
		stacks, err := s.between(t.Context(), "settled", "now")
		if err != nil {
			t.Fatal(err)
		}
		off, err := s.off(t.Context(), "settled", "now")
		if err != nil {
			t.Fatal(err)
		}
		lines := byLine(stacks, off)
		byGrowth(lines)
		if lines[0].Site == "leak.py:1" {
			first++
		} else {
			t.Logf("seed %d: %+v", seed, lines[:2])
		}
		if lines[1].Grown == 0 || lines[0].Noise == 0 {
			t.Errorf("seed %d: %+v", seed, lines[:2])
		}
	}
	if first < seeds {
		t.Errorf("the leak is first in %d of %d", first, seeds)
	}
}
