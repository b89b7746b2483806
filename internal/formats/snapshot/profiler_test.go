package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// profiled is the trace of a training on the CPU, unpacked.
func profiled(t *testing.T) []byte {
	t.Helper()
	f, err := os.Open("../../../testdata/snapshots/profiler.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The memory events are there in the order of time, with the line of the program that each came from.
func TestProfilerTrace(t *testing.T) {
	data := profiled(t)
	var raw struct {
		TraceEvents []struct {
			Name string
			Args struct {
				Bytes int64
				Total int64 `json:"Total Allocated"`
			}
		}
	}
	if err := json.Unmarshal(bytes.ReplaceAll(data, []byte(`"finished"`), []byte(`"f"`)), &raw); err != nil {
		t.Fatal(err)
	}
	var events int
	var sum int64
	for _, e := range raw.TraceEvents {
		if e.Name == "[memory]" {
			events++
			sum += e.Args.Bytes
		}
	}
	c := columns(t, data)
	if c.Len() != events || c.Format != ProfilerTrace || c.DeviceNames[0] != "CPU" || len(c.Annotations) == 0 {
		t.Errorf("%d events, want %d; %s, %v, %d annotations", c.Len(), events, c.Format, c.DeviceNames,
			len(c.Annotations))
	}
	lines := map[int]bool{}
	for i := range c.Len() {
		switch c.Action[i] {
		case IsAlloc:
			sum -= c.Size[i]
		case IsFreeCompleted:
			sum += c.Size[i]
		}
		if i > 0 && c.Time[i] < c.Time[i-1] {
			t.Errorf("event %d goes back in time", i)
		}
		for _, f := range c.StackFrames(c.Stack[i]) {
			if frame := c.Frame(f); frame.File == "train.py" && frame.Name == "step" {
				lines[frame.Line] = true
				break
			}
		}
	}
	if sum != 0 || fmt.Sprint(lines) != "map[11:true 12:true 13:true 14:true 15:true 16:true 17:true]" {
		t.Errorf("bytes differ by %d, lines %v", sum, lines)
	}
}

// A trace that is cut is read as far as it goes; what has no memory events, and a timeline, say what to record instead.
func TestProfilerTraceMistakes(t *testing.T) {
	data := profiled(t)
	c := columns(t, data[:len(data)/2])
	if c.Cut == nil || !strings.Contains(c.Cut.Error(), "cut short") || c.Len() == 0 {
		t.Errorf("cut: %v, %d events", c.Cut, c.Len())
	}
	for text, want := range map[string]string{
		`{"schemaVersion": 1, "traceEvents": []}`:                                  "has no memory events",
		"[[1795354480009712], [[1, 2]]]":                                           "memory timeline",
		` [ [-1, 1, 8192, 0]]`:                                                     "memory timeline",
		`{"traceEvents": {"ph": 1}}`:                                               "is not a list",
		`{"traceEvents": [{"ph": 7}]}`:                                             "profiler's trace",
		`{"traceEvents": [{"name": "[memory]", "ts": 1, "args": {"Bytes": "x"}}]}`: "event 0",
		`[{"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": 1,`:           "cut short",
	} {
		_, err := ReadColumns(context.Background(), strings.NewReader(text), testBudget)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
		if want == "memory timeline" && remedy.Of(err) == "" {
			t.Errorf("%s: no remedy", text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := ReadColumns(ctx, bytes.NewReader(data), testBudget); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
	if _, err := ReadColumns(context.Background(), bytes.NewReader(data), 1<<10); !errors.Is(err, ErrFormat) {
		t.Errorf("within a kilobyte: %v", err)
	}
}

// A device's reserved bytes go as the trace says, and devices other than the CPU keep their numbers.
func TestProfilerTraceOfDevices(t *testing.T) {
	c := columns(t, []byte(`{"baseTimeNanoseconds": 1000000000, "traceEvents": [
		{"ph":"i","name":"[memory]","tid":1,"ts":5,"args":{"Bytes":10,"Addr":1,"Device Id":1,"Device Type":1,"Total Reserved":100}},
		{"ph":"i","name":"[memory]","tid":"2","ts":4,"args":{"Bytes":7,"Addr":1,"Device Id":-1,"Device Type":0,"Total Reserved":0}},
		{"ph":"i","name":"[memory]","tid":1,"ts":6,"args":{"Bytes":-10,"Addr":1,"Device Id":1,"Device Type":1,"Total Reserved":60}}]}`))
	var got []string
	for i := range c.Len() {
		got = append(got, fmt.Sprint(c.Device[i], " ", c.Actions[c.Action[i]], " ", c.Size[i], " ", c.Time[i]))
	}
	want := "[1 segment_alloc 100 1000005 1 alloc 10 1000005 1 segment_free 40 1000006 1 free_completed 10 1000006 2 alloc 7 1000004]"
	if fmt.Sprint(got) != want || c.DeviceNames[2] != "CPU" {
		t.Errorf("got %v, %v", got, c.DeviceNames)
	}
}
