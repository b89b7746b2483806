package questions_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/memgauge/memgauge/test/fakesession"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// notStored are the members of a finding that its table lacks: what is told when it is judged, and not later.
var notStored = []string{"rate_mb_per_second", "load", "site_lines", "missing", "limit_step", "limit_met", "ended"}

// TestFindingReadBack: what was judged, stored and read back is told as it was told at first, whatever is known of it.
func TestFindingReadBack(t *testing.T) {
	all := detect.Finding{Growth: detect.Growth{Verdict: detect.Leak, Reason: "it grows", Rate: 1234567, Low: 1.2e6,
		High: 1.3e6, Start: 212, End: 900, Total: 8e8, Noise: 5, P: 0.00012, N: 70}, Class: detect.RetainedTensors,
		Memory: detect.Device, Device: "cuda:1", PID: 77, Rank: 3, Site: "train.py:48", Holder: "all_losses",
		Held: "list, 4 items", Evidence: []string{"one", "two"}, Advice: []string{"first", "second"}, PerSec: 5e6,
		Seconds: 2460.4, SecondsLow: 2300, SecondsHigh: 2700, Limit: "device 80 GiB", AtStep: 9870}
	seconds := all
	seconds.ByTime, seconds.Memory, seconds.Device, seconds.SecondsHigh = true, detect.Worker, "", 0
	little := detect.Finding{Growth: detect.Growth{Verdict: detect.Undecided, Reason: "too few steps", Needs: 9},
		Memory: detect.Heap, PID: 78, Rank: -1}
	served := all
	served.Work, served.Memory, served.Device, served.Load = "request", detect.Heap, "", "20 requests/s"
	report := detect.Report{Verdict: detect.Leak, Findings: []detect.Finding{all, seconds, little, served}}
	b := &model.Batch{Findings: analyse.Rows(report, 4, time.Now())}
	tables := fakesession.Stored(t, b)
	rows, err := api.Ask(t.Context(), tables, questions.Findings(3))
	if err != nil || len(rows) != 4 || rows[0].Number != 4 || rows[0].RunVerdict != "leak" {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for i, f := range report.Findings {
		want, got := members(t, f.Document()), members(t, rows[i].Told())
		if !reflect.DeepEqual(got, want) {
			t.Errorf("read back\n%v\nand judged\n%v", got, want)
		}
		if detect.Pace(rows[i].Told()) != f.PerStep() && f.Rate != 0 {
			t.Errorf("%s, and judged %s", detect.Pace(rows[i].Told()), f.PerStep())
		}
	}
}

// members are what the JSON of a finding has and its table keeps.
func members(t *testing.T, f model.Finding) (m map[string]any) {
	t.Helper()
	text, err := json.Marshal(f)
	if err == nil {
		err = json.Unmarshal(text, &m)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range notStored {
		if name != "rate_mb_per_second" || !f.ByTime {
			delete(m, name)
		}
	}
	return m
}
