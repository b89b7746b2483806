package anatomy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// chrome is what is read back of a trace.
type chrome struct {
	TraceEvents []struct {
		Ph, Name string
		Pid, Tid int
		Ts, Dur  int64
		Args     map[string]any
	}
}

// Perfetto's own trace processor reads the traces of real snapshots without an error, and finds in them what there is.
func TestPerfettosTraceProcessor(t *testing.T) {
	for _, name := range []string{"mosaic.pickle", "h100-segments.pickle.gz"} {
		h := open(t, "../../../testdata/snapshots/"+name)
		d := h.Devices[0]
		var out bytes.Buffer
		if err := h.WritePerfetto(context.Background(), &out); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "trace.json")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		level := "SELECT max(value) AS most, count(*) AS n FROM counter JOIN counter_track AS c ON c.id = track_id " +
			"WHERE c.name = '"
		rows := env.TraceRows(t, path, env.TraceErrors, level+"live bytes'", level+"reserved bytes'",
			"SELECT count(*) AS n FROM slice WHERE name GLOB 'iteration *'",
			"SELECT count(*) AS n FROM slice WHERE name NOT GLOB 'iteration *'")
		if len(rows) != 5 || len(rows[0]) > 0 {
			t.Fatalf("%s: %v", name, rows)
		}
		for i, want := range []map[string]any{
			1: {"most": float64(d.PeakLive)}, 2: {"most": float64(d.PeakReserved().Bytes)},
			3: {"n": float64(len(d.Iterations.Starts))}, 4: {"n": float64(len(h.Stages(d)))},
		} {
			for column, value := range want {
				if rows[i][0][column] != value {
					t.Errorf("%s: answer %d has %v for %s, want %v", name, i, rows[i][0][column], column, value)
				}
			}
		}
	}
}

// What is drawn begins, culminates and ends where the history does, for short histories and long ones.
func TestPerfetto(t *testing.T) {
	for name, path := range map[string]string{"short": made(t, "--megabytes", "2", "--devices", "2", "--oom"),
		"long": made(t, "--megabytes", "60")} {
		t.Run(name, func(t *testing.T) {
			h := open(t, path)
			var out bytes.Buffer
			if err := h.WritePerfetto(context.Background(), &out); err != nil {
				t.Fatal(err)
			}
			var trace chrome
			if err := json.Unmarshal(out.Bytes(), &trace); err != nil {
				t.Fatal(err)
			}
			for _, d := range h.Devices {
				var peak, last, uses int64
				kinds := map[string]int{}
				for _, e := range trace.TraceEvents {
					if e.Pid != d.Number {
						continue
					}
					kinds[e.Ph]++
					switch e.Name {
					case "live":
						last = int64(e.Args["bytes"].(float64))
						peak = max(peak, last)
					case "live by use":
						uses = 0
						for _, bytes := range e.Args {
							uses += int64(bytes.(float64))
						}
					}
				}
				if end := h.Live[d.To-1]; peak != d.PeakLive || last != end || uses != end {
					t.Errorf("device %d: peak %d, want %d; at the end %d, by use %d, want %d", d.Number, peak,
						d.PeakLive, last, uses, end)
				}
				if kinds["X"] < len(d.Iterations.Starts) || kinds["M"] != 1 ||
					kinds["i"] != len(h.Report().Devices[d.Number].OOMs) {
					t.Errorf("device %d: %v", d.Number, kinds)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			if err := h.WritePerfetto(ctx, &out); !errors.Is(err, context.Canceled) {
				t.Errorf("called off: %v", err)
			}
		})
	}
}
