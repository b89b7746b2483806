package watch

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// leakReport is a report with one memory of each verdict.
func leakReport() detect.Report {
	steps, leaking, flat := []float64{}, []float64{}, []float64{}
	for i := range 1000 {
		steps = append(steps, float64(i+1))
		leaking, flat = append(leaking, 1e9+2e6*float64(i)), append(flat, 3e9)
	}
	in := detect.Input{Steps: 1000, Host: detect.Limit{Name: "cgroup 16 GiB", Bytes: 16 << 30, Used: 4 << 30},
		Processes: []detect.Process{
			{PID: 7, Rank: 0, Pace: 0.25, Heap: detect.Series{Steps: steps, Bytes: leaking}},
			{PID: 8, Rank: 1, Pace: 0.25, Heap: detect.Series{Steps: steps, Bytes: flat}},
			{PID: 9, Rank: 2, Pace: 0.25, Heap: detect.Series{Steps: steps[:50], Bytes: flat[:50]}}}}
	return detect.Run(in)
}

// TestLeakJSON holds the schema: every member of CONTRACT and of the seeds, with its type, also where nothing is known.
func TestLeakJSON(t *testing.T) {
	members := map[string]string{
		"schema_version": "number", "timestamp": "string", "verdict": "string", "class": "string or null",
		"confidence": "number or null", "steps": "number", "unit": "string",
		"monitoring_summary": "object", "devices": "object", "leak_events": "array", "recommendations": "array",
		"findings": "array", "warnings": "array", "peaks": "array",
		"session": "string", "missing": "string or null", "steps_missing": "number or null",
		"seconds": "number or null", "seconds_missing": "number or null"}
	finding := map[string]string{"verdict": "string", "class": "string or null", "memory": "string",
		"name": "string", "pid": "number",
		"rank": "number or null", "rate_mb_per_step": "number or null",
		"rate_low": "number or null", "rate_high": "number or null", "start_step": "number or null",
		"site": "string or null", "site_lines": "number", "holder": "string or null", "evidence": "array",
		"advice": "array", "time_to_limit_seconds": "number or null", "limit": "string or null",
		"device": "string or null", "held": "string or null", "reason": "string",
		"missing": "string or null", "readings": "number", "p": "number or null", "by_time": "bool",
		"end_step": "number", "growth_bytes": "number",
		"time_to_limit_low": "number or null", "time_to_limit_high": "number or null",
		"rate_mb_per_second": "number or null", "unit": "string", "limit_step": "number or null", "limit_met": "bool",
		"ended": "bool", "rule": "object or null", "load": "string or null"}
	nested := map[string]map[string]string{ // of monitoring_summary, each of devices, each of leak_events
		"monitoring_summary": {"duration_seconds": "number", "start_time": "string", "end_time": "string",
			"live": "bool", "total_steps": "number", "samples_count": "number",
			"total_devices": "number", "leaks_detected": "number", "has_leaks": "bool", "confidence": "number",
			"leak_threshold_mb_per_min": "number", "tracking_enabled": "bool", "check": "bool"},
		"devices": {"current_memory": "number", "memory_growth": "number", "growth_rate_mb_per_min": "number or null",
			"growth_rate_mb_per_step": "number or null",
			"leak_detected":           "bool", "samples_count": "number", "verdict": "string"},
		"leak_events": {"timestamp": "string", "device_id": "string", "leak_rate_mb_per_min": "number or null",
			"memory_increase_mb": "number", "severity": "string",
			"confidence": "number", "description": "string", "suspected_sources": "array"}}
	for name, r := range map[string]detect.Report{"leak": leakReport(), "nothing": detect.Run(detect.Input{})} {
		text, err := json.Marshal(leakJSON(r, leakContext{Session: "s", Started: time.Now().Add(-time.Minute),
			Now: time.Now()}))
		if err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		checkMembers(t, name, doc, members)
		for _, f := range doc["findings"].([]any) {
			checkMembers(t, name+" finding", f.(map[string]any), finding)
		}
		checkMembers(t, name+" summary", doc["monitoring_summary"].(map[string]any), nested["monitoring_summary"])
		devices, events := doc["devices"].(map[string]any), doc["leak_events"].([]any)
		if name == "leak" && (len(devices) == 0 || len(events) == 0) {
			t.Errorf("%d devices, %d events of a leak", len(devices), len(events))
		}
		for device, d := range devices {
			checkMembers(t, name+" device "+device, d.(map[string]any), nested["devices"])
		}
		for _, e := range events {
			checkMembers(t, name+" event", e.(map[string]any), nested["leak_events"])
		}
	}
}

func checkMembers(t *testing.T, name string, got map[string]any, want map[string]string) {
	t.Helper()
	kind := func(v any) string {
		switch v.(type) {
		case nil:
			return "null"
		case float64:
			return "number"
		case bool:
			return "bool"
		case []any:
			return "array"
		case map[string]any:
			return "object"
		}
		return "string"
	}
	for member, types := range want {
		v, ok := got[member]
		if k := kind(v); !ok || !strings.Contains(types, k) {
			t.Errorf("%s: %s is %s, want %s", name, member, k, types)
		}
	}
	for member := range got {
		if want[member] == "" {
			t.Errorf("%s: %s is not in the schema", name, member)
		}
	}
}

// Two memories that grow by the same line need the same advice, which is given once.
func TestLeakJSONGivesAdviceOnce(t *testing.T) {
	r := leakReport()
	for i := range r.Findings {
		r.Findings[i].Verdict, r.Findings[i].Advice = detect.Leak, []string{"detach it", "or clear it"}
	}
	text, err := json.Marshal(leakJSON(r, leakContext{Now: time.Now()}))
	var d struct{ Recommendations []string }
	if err != nil || json.Unmarshal(text, &d) != nil || len(r.Findings) < 2 ||
		strings.Join(d.Recommendations, "; ") != "detach it; or clear it" {
		t.Errorf("%v, %v", d.Recommendations, err)
	}
}

func TestLeakText(t *testing.T) {
	r := leakReport()
	if r.Verdict != detect.Leak || len(r.Findings) != 3 {
		t.Fatalf("%+v", r)
	}
	text := leakText(r, leakContext{Cwd: "/jobs"})
	for _, want := range []string{"LEAK  host heap of rank 0 +1.91 MiB/step since step 1\n",
		"  limit     cgroup 16 GiB in 27 min, about", "about step 7,4",
		"undecided  host heap of rank 2: too few steps; needs about 151 more steps\n",
		"healthy  host heap of rank 1: no growth beyond chance"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if text := leakText(detect.Run(detect.Input{}), leakContext{}); !strings.HasPrefix(text,
		"undecided  no memory of a training process was recorded") {
		t.Errorf("of nothing: %s", text)
	}
}

func TestLeakThreshold(t *testing.T) {
	r := leakReport()
	leakOptions{threshold: 400}.ignoreSlow(&r) // 1.9 MiB a step, four steps a second: 458 MiB a minute
	if r.Verdict != detect.Leak {
		t.Errorf("faster than the threshold: %s", r.Verdict)
	}
	leakOptions{threshold: 500}.ignoreSlow(&r)
	if r.Verdict == detect.Leak || math.IsNaN(r.Confidence) {
		t.Errorf("slower than the threshold: %s", r.Verdict)
	}
}

// TestCheckThreshold: of a check counts what grows while it watches, however much had grown before.
func TestCheckThreshold(t *testing.T) {
	half := leakOptions{check: true, duration: units.Duration(30 * time.Second), durationSet: true}
	for threshold, want := range map[float64]detect.Verdict{220: detect.Leak, 240: detect.Healthy} { // 229 MiB
		r := leakReport()
		for i := range r.Findings {
			r.Findings[i].Total = 1 << 40
		}
		o := half
		o.threshold = threshold
		o.ignoreSlow(&r)
		if (r.Verdict == detect.Leak) != (want == detect.Leak) {
			t.Errorf("threshold %g MB in 30 s: %s", threshold, r.Verdict)
		}
	}
}
