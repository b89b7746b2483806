package recorded_test

import (
	"math"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/analyse"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

const mib = 1 << 20

// growing is a live job whose private memory grows by 10 MiB a second beside 200 MiB, in a cgroup of 4 GiB: read so
// many times a second, its steps of 50 ms told if it makes any, device 0 growing alike.
func growing(seconds, perSecond int, steps bool) *model.Batch {
	b := &model.Batch{Samples: model.Samples{Devices: []model.GPUDevice{{Time: 1e6, Device: 3, UUID: "GPU-3",
		Name: "GPU", Total: 4 * gib, CUDAVisible: 0, Parent: -1, State: "ok"}}}}
	jitter := func(i int) int64 { return int64(i*7919%1000) * 3000 }
	grown := func(us int64) int64 { return 200*mib + us*10*mib/1e6 }
	for i := range seconds * perSecond {
		at := int64(i) * 1e6 / int64(perSecond)
		now := at + 1e6
		b.Samples.Hosts = append(b.Samples.Hosts, model.HostMemory{Time: now, Total: 64 * gib, Available: 50 * gib})
		b.Samples.Cgroups = append(b.Samples.Cgroups, model.CgroupMemory{Time: now, Path: "/job", Version: 2,
			Current: grown(at) + jitter(i) + gib/2, Limit: 4 * gib, LimitPath: "/job", InactiveFile: gib / 2})
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: now, PID: 7, StartTicks: 1, Rank: -1,
			RSS: grown(at), File: 50 * mib, VMSize: 8 * gib, Anon: grown(at) + jitter(i)/10, PSS: model.Null,
			HeapInUse: model.Null, HeapHeld: model.Null})
		b.Samples.GPUs = append(b.Samples.GPUs, model.GPUUtilization{Time: now, Device: 3, Name: "GPU",
			Used: grown(at) + 300*mib, Total: 4 * gib, State: "ok"})
	}
	role := "main"
	if steps {
		role = "trainer"
		for i := range seconds * 20 {
			at := int64(i) * 50_000
			s := nullStep(at+1e6, int64(i+1))
			s.Device, s.HeapInUse, s.HeapHeld, s.Anon = 0, grown(at)+jitter(i)/10, grown(at)+20*mib, grown(at)+50*mib
			b.Steps = append(b.Steps, s)
			b.Devices = append(b.Devices, model.StepDevice{Time: s.Time, PID: 7, Rank: 0, Step: s.Step, Steps: 1,
				Device: 0, Allocated: grown(at) + jitter(i), MaxAllocated: grown(at) + 100*mib + jitter(i+1),
				Reserved: grown(at) + 200*mib, MaxReserved: grown(at) + 200*mib})
		}
	}
	b.Samples.Tree = []model.TreeProcess{{PID: 7, StartTicks: 1, Role: role, Command: "python x.py", FirstSeen: 1e6,
		LastSeen: int64(seconds+1) * 1e6}}
	return b
}

// TestLeakAndOOMNameTheSameTime: on the same rows the verdict on a leak and the watch's forecast name the same time
// with the same interval; where the watch names none yet, the leak's own pace does, and it is right.
func TestLeakAndOOMNameTheSameTime(t *testing.T) {
	for name, c := range map[string]struct {
		seconds, perSecond int
		steps              bool
		seen               bool // by the watch
	}{
		"a training":                         {200, 5, true, true},
		"a training near its limit":          {360, 5, true, true},
		"a program without steps":            {200, 5, false, true},
		"more readings than a watch keeps":   {260, 45, true, true},
		"its end is farther than it is seen": {60, 5, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			db, s := openSession(t)
			s.Live = true
			if err := db.Append(t.Context(), growing(c.seconds, c.perSecond, c.steps)); err != nil {
				t.Fatal(err)
			}
			report, err := analyse.Judge(t.Context(), db, analyse.Options{})
			if err != nil {
				t.Fatal(err)
			}
			w, err := monitor.New(t.Context(), s, monitor.Options{Job: monitor.Job{Known: true, FromStart: true},
				OOM: monitor.OOMOptions{Threshold: forecast.DefaultThreshold, Critical: 95,
					Window: forecast.DefaultWindow * time.Second}})
			if err == nil {
				_, err = w.Tick(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			risks := map[string]monitor.Risk{}
			for _, d := range w.Devices {
				risks[d.Device.ID] = d.Risk
			}
			risks[""], risks["cuda:0"] = risks[monitor.Host], risks["3"]
			leaks := map[string]int{}
			for _, f := range report.Findings {
				if f.Verdict == detect.Leak {
					leaks[f.Device]++
					sameTime(t, f, risks[f.Device], c.seen, float64(c.seconds))
				}
			}
			if leaks[""] == 0 || c.steps && leaks["cuda:0"] == 0 {
				t.Errorf("leaks %v: %+v", leaks, report.Findings)
			}
		})
	}
}

func sameTime(t *testing.T, f detect.Finding, r monitor.Risk, seen bool, age float64) {
	t.Helper()
	left := float64(4*gib-200*mib)/(10*mib) - age
	if f.Device != "" {
		left -= 20 // s: a step needs 100 MiB more, and others hold 100 MiB
	}
	if math.Abs(f.Seconds-left) > 0.1*left {
		t.Errorf("%s: %.1f s, it is %.1f", f.Name(), f.Seconds, left)
	}
	if r.Predicted != seen {
		t.Errorf("%s: the watch foresees an end: %t (%s)", f.Name(), r.Predicted, r.Reason)
	}
	if seen && (!near(f.Seconds, r.Seconds) || !near(f.SecondsLow, r.SecondsLow) ||
		!near(f.SecondsHigh, r.SecondsHigh)) {
		t.Errorf("%s: leak says %.3f s (%.3f to %.3f), oom %.3f (%.3f to %.3f)", f.Name(), f.Seconds, f.SecondsLow,
			f.SecondsHigh, r.Seconds, r.SecondsLow, r.SecondsHigh)
	}
}

// near is equal but for the last digits of a time.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }
