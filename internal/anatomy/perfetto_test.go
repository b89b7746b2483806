package anatomy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
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
