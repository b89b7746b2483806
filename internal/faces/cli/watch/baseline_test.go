package watch

import (
	"testing"

	"github.com/memgauge/memgauge/internal/judge/detect"
)

// A comparison fails on a leak and on a peak beyond the tolerance, and on nothing else.
func TestCompareWithBaseline(t *testing.T) {
	before := baseline{Peaks: map[string]int64{"host process": 1000, "cuda:0": 5000}}
	for _, c := range []struct {
		name      string
		now       baseline
		tolerance float64
		passed    bool
		text      string
	}{
		{"as before", baseline{Verdict: detect.Healthy, Line: "healthy", Peaks: before.Peaks}, 0.05, true,
			"ok     peak of cuda:0: 4.88 KiB, +0.0 % against 4.88 KiB (5% allowed)\n" +
				"ok     peak of host process: 1000 B, +0.0 % against 1000 B (5% allowed)\nok     healthy\n"},
		{"more, within the tolerance", baseline{Verdict: detect.Healthy, Line: "healthy",
			Peaks: map[string]int64{"host process": 1050, "cuda:0": 5000}}, 0.05, true, ""},
		{"more", baseline{Verdict: detect.Healthy, Line: "healthy",
			Peaks: map[string]int64{"host process": 1051, "cuda:0": 5000}}, 0.05, false, ""},
		{"other memories", baseline{Verdict: detect.Undecided, Line: "undecided: too few steps",
			Peaks: map[string]int64{"host process": 900, "cuda:1": 5}}, 0.05, true,
			"-      peak of cuda:0: not in this session; 4.88 KiB in the baseline\n" +
				"-      peak of cuda:1: 5 B; not in the baseline\n" +
				"ok     peak of host process: 900 B, -10.0 % against 1000 B (5% allowed)\n" +
				"-      undecided: too few steps\n"},
		{"a leak", baseline{Verdict: detect.Leak, Line: "LEAK host heap +1 MiB/step", Peaks: before.Peaks}, 0.05, false,
			"ok     peak of cuda:0: 4.88 KiB, +0.0 % against 4.88 KiB (5% allowed)\n" +
				"ok     peak of host process: 1000 B, +0.0 % against 1000 B (5% allowed)\n" +
				"LEAK   host heap +1 MiB/step\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := compare(before, c.now, c.tolerance)
			if got.Passed != c.passed {
				t.Errorf("passed %v, want %v", got.Passed, c.passed)
			}
			if c.text != "" && got.text() != c.text {
				t.Errorf("got\n%s\nwant\n%s", got.text(), c.text)
			}
		})
	}
}
