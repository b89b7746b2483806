package web

import (
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/fakesession"
)

// TestPeaksStandOnThePage: what leak tells of a peak the page has too, with the line of the program that made it.
func TestPeaksStandOnThePage(t *testing.T) {
	const second, gib = 1_000_000, 1 << 30
	dir := t.TempDir()
	text := []byte("import torch\ntorch.save(x, y)\n")
	if err := os.WriteFile(filepath.Join(dir, "train.py"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	b := &model.Batch{Events: []model.Event{{Time: 10 * second, PID: 7, Rank: -1, Name: "peak", Code: "saving",
		Text: "torch.save, train.py:2 (cuda:0)", A: 2 * gib, B: gib}}}
	s := &fakesession.Session{Job: api.About{Cwd: dir}, Rows: fakesession.Stored(t, b), Forecast: &monitor.Report{}}
	v, err := verdicts(t.Context(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	peaks := v.(judged).Peaks
	if len(peaks) != 1 || peaks[0].Device != "cuda:0" || peaks[0].Site != "train.py:2" || peaks[0].Text == "" {
		t.Fatalf("%+v", peaks)
	}
	for site, there := range map[string]bool{"train.py:2": true, "train.py:1": false, "torch.save, train.py:2": false} {
		_, err := source(t.Context(), s, params(url.Values{"site": {site}}))
		if (err == nil) != there {
			t.Errorf("the source at %s: %v", site, err)
		}
	}
}
