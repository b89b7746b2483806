package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/judge/forecast"
	"github.com/memgauge/memgauge/internal/judge/fragment"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scripted is a Source that plays readings, one a device and call.
type scripted struct {
	devices []Device
	used    func(device string, i int) int64
	total   int64
	kind    string // "": device
	blocks  []Allocator
	i       int
	step    float64
}

func (s *scripted) Devices(context.Context) ([]Device, error) { return s.devices, nil }
func (s *scripted) Ended() bool                               { return false }
func (s *scripted) Blocks(context.Context, string) ([]Allocator, string, error) {
	if s.blocks == nil {
		return nil, "no blocks here", nil
	}
	return s.blocks, "", nil
}

func (s *scripted) Read(_ context.Context, into []Reading) ([]Reading, error) {
	for _, d := range s.devices {
		u := s.used(d.ID, s.i)
		r := Reading{Device: d.ID, Time: start.Add(time.Duration(s.i) * time.Second), Used: u, Peak: u,
			Reserved: u + u/10, Total: s.total, Kind: cmp.Or(s.kind, "device"), Step: s.step}
		if u < 0 {
			r = Reading{Device: d.ID, Time: r.Time, Err: "it fell off the bus"}
		}
		into = append(into, r)
	}
	s.i++
	return into, nil
}

func play(t *testing.T, s *scripted, o Options, ticks int) (*Watch, []Warning) {
	t.Helper()
	w, err := New(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []Warning
	for range ticks {
		warnings, err := w.Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, warnings...)
	}
	return w, all
}

const gib = 1 << 30

var gpu0 = []Device{{Host, "this machine"}, {"0", "Fake"}}

func oomDefaults() OOMOptions { return OOMOptions{85, 95, 30 * time.Second} }

func growing(_ string, i int) int64 { return 4*gib + int64(i)*20<<20 + int64(i%3)*100<<20 }

func steady(string, int) int64 { return 4 * gib }

// The documents of both generations of the tools show their reports. Every path in them must be in ours, with a value
// of the same type. Units follow from the names and are checked by value below.
func TestSeedsReports(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/seeds/tinytorch-memory-debug-tools.zh-CN.md")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{devices: gpu0, used: growing, total: 16 * gib,
		blocks: []Allocator{{PID: 7, Rank: 0, State: fragment.State{Source: "test", Held: 100, InUse: 80,
			Holes: fragment.Holes{Count: 2, Bytes: 20, Largest: 15}}}}}
	w, _ := play(t, s, Options{OOM: oomDefaults()}, 400)
	if err := w.LookAtBlocks(t.Context(), start); err != nil {
		t.Fatal(err)
	}
	samples := 0
	for _, block := range regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		samples++
		var want any
		if err := json.Unmarshal([]byte(block[1]), &want); err != nil {
			t.Fatalf("%v in %s", err, block[1])
		}
		for _, tool := range []string{"profile", "oom", "monitor"} {
			var got any
			if err := json.Unmarshal(marshal(t, w.Report(What{Tool: tool, Now: start})), &got); err != nil {
				t.Fatal(err)
			}
			compare(t, tool, want, got)
		}
	}
	if samples != 3 {
		t.Errorf("%d sample reports in the document, want 3", samples)
	}
}

func marshal(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compare(t *testing.T, path string, want, got any) {
	t.Helper()
	if w, ok := want.(map[string]any); ok {
		g, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s: %T, want an object", path, got)
			return
		}
		for key, v := range w {
			if x, ok := g[key]; !ok {
				t.Errorf("%s.%s: not there", path, key)
			} else {
				compare(t, path+"."+key, v, x)
			}
		}
		return
	}
	if fmt.Sprintf("%T", want) != fmt.Sprintf("%T", got) {
		t.Errorf("%s: %T, want %T", path, got, want)
	}
}

// The same quantities in the units of the replaced tools' samples: bytes, percent, 2^30 bytes, 2^20 bytes a second,
// seconds.
func TestReportsUnits(t *testing.T) {
	s := &scripted{devices: []Device{{"0", "Fake"}}, used: growing, total: 16 * gib}
	w, _ := play(t, s, Options{OOM: oomDefaults()}, 400)
	r := w.Report(What{Tool: "oom", Now: start, Snapshots: true})
	d := r.Devices["0"]
	used := growing("0", 399)
	if d.CurrentUsage.Allocated != used || d.CurrentUsage.Free != 16*gib-used || d.CurrentUsage.Total != 16*gib ||
		r.Summary.MemoryGB != 16 {
		t.Errorf("%+v %+v", d.CurrentUsage, r.Summary)
	}
	if p := 100 * float64(used) / (16 * gib); float64(d.CurrentMemory.Utilization) != p || d.Risk.Usage != Number(p) {
		t.Errorf("utilization %v, want %v", d.CurrentMemory.Utilization, p)
	}
	if d.Risk.Growth < 19.5 || d.Risk.Growth > 20.5 {
		t.Errorf("growth of %v MiB/s, it is 20", d.Risk.Growth)
	}
	left := (12.0*1024-200)/20 - 399 // s until the peak is at the limit
	if d.Risk.Seconds == nil || float64(*d.Risk.Seconds) < left*0.9 || float64(*d.Risk.Seconds) > left*1.1 {
		t.Errorf("OOM in %v s, it is %v", d.Risk.Seconds, left)
	}
	if len(d.Snapshots) != 400 || d.Statistics.Samples != 400 || d.PeakMemory != growing("0", 398) &&
		d.PeakMemory != used {
		t.Errorf("%d snapshots, peak %d", len(d.Snapshots), d.PeakMemory)
	}
}

func TestWarning(t *testing.T) {
	s := &scripted{devices: []Device{{"0", "Fake"}}, used: growing, total: 16 * gib}
	w, warnings := play(t, s, Options{OOM: oomDefaults()}, 595)
	if len(warnings) < 3 || len(warnings) > 12 {
		t.Fatalf("%d warnings in 10 minutes", len(warnings))
	}
	for i := 1; i < len(warnings); i++ {
		if warnings[i].Risk.Level < warnings[i-1].Risk.Level {
			t.Errorf("the risk fell from %v to %v", warnings[i-1].Risk.Level, warnings[i].Risk.Level)
		}
	}
	last := warnings[len(warnings)-1]
	text := last.Text()
	for _, want := range []string{"[WARNING] OOM warning: GPU 0\n", "   risk level: critical\n", "   current usage: 9",
		"   predicted OOM: in ", "   confidence: 0.", "   advice: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if w.Worst() != Critical {
		t.Errorf("worst %v", w.Worst())
	}
}

// Memory of a host without a limit for the job is that of all programs: nobody may say that the job keeps something.
func TestAdviceBlamesNobodyElse(t *testing.T) {
	for _, c := range []struct {
		kind  string
		known bool
		want  string
	}{
		{"host", true, "`memgauge leak` tells whether this job does"},
		{"host", false, "`memgauge top` shows the processes"},
		{"device", false, "`memgauge top` shows the processes"},
		{"device", true, "something is kept from step to step"},
		{"cgroup", true, "something is kept from step to step"},
	} {
		s := &scripted{devices: []Device{{Host, ""}}, used: growing, total: 16 * gib, kind: c.kind}
		w, warnings := play(t, s, Options{OOM: oomDefaults(), Job: Job{Known: c.known, FromStart: c.known}}, 560)
		if len(warnings) == 0 || !strings.Contains(w.Devices[0].Risk.Advice[0], c.want) {
			t.Errorf("%s, job known %v: %d warnings, %q", c.kind, c.known, len(warnings), w.Devices[0].Risk.Advice)
		}
	}
}

func TestNoWarningWithoutCause(t *testing.T) {
	saw := func(_ string, i int) int64 { return 4*gib + int64(i%60)*100<<20 }
	oneOff := func(_ string, i int) int64 { return 4*gib + int64(i/200)*5*gib }
	for name, used := range map[string]func(string, int) int64{"steady": steady, "sawtooth": saw, "one-off": oneOff} {
		s := &scripted{devices: gpu0, used: used, total: 20 * gib}
		w, warnings := play(t, s, Options{OOM: oomDefaults()}, 400)
		if len(warnings) > 0 && name != "sawtooth" || w.Worst() > Medium {
			t.Errorf("%s: %d warnings, the worst %v", name, len(warnings), w.Worst())
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	s := &scripted{devices: []Device{{"0", "Fake"}}, total: 16 * gib, used: func(_ string, i int) int64 {
		if i == 777 {
			return 9 * gib
		}
		return 3 * gib
	}}
	w, _ := play(t, s, Options{MaxHistory: 100}, 10000)
	h := &w.Devices[0].History
	if h.Len() > 100 || h.Len() < 50 || h.count != 10000 || h.peakBytes != 9*gib {
		t.Errorf("%d samples of %d readings, peak %d", h.Len(), h.count, h.peakBytes)
	}
	if span := h.samples[h.Len()-1].Time.Sub(h.samples[0].Time); span < 9000*time.Second {
		t.Errorf("only %s are left", span)
	}
	seen := false
	for _, x := range h.samples {
		seen = seen || x.High == 9*gib
	}
	if !seen {
		t.Error("the peak was merged away")
	}
}

func TestLostDevice(t *testing.T) {
	s := &scripted{devices: gpu0, total: 16 * gib, used: func(d string, i int) int64 {
		if d == "0" && i > 5 {
			return -1
		}
		return gib
	}}
	w, _ := play(t, s, Options{}, 10)
	r := w.Report(What{Tool: "monitor", Now: start})
	if e := r.Devices["0"].Error; e == nil || *e != "it fell off the bus" || r.Devices[Host].Statistics.Samples != 10 ||
		len(r.Events) != 1 {
		t.Errorf("%s", marshal(t, r))
	}
}

func TestChoose(t *testing.T) {
	s := &scripted{devices: []Device{{Host, ""}, {"0", ""}, {"1", ""}}, used: steady, total: gib}
	for names, want := range map[string]int{"": 3, "0": 1, "cuda:1": 1, "GPU0 1": 2, "host": 1, "cpu 0 0": 2} {
		w, err := New(t.Context(), s, Options{Devices: strings.Fields(names)})
		if err != nil || len(w.Devices) != want {
			t.Errorf("%q: %v", names, err)
		}
	}
	if _, err := New(t.Context(), s, Options{Devices: []string{"7"}}); err == nil || err.Error() != "no device 7" {
		t.Errorf("device 7: %v", err)
	}
}

func TestHostReading(t *testing.T) {
	for name, c := range map[string]struct {
		host        forecast.Host
		used, total int64
		kind        string
	}{
		"no cgroup": {forecast.Host{Total: 100, Available: 60, Limit: -1, Current: -1}, 40, 100, "host"},
		"cgroup": {forecast.Host{Total: 100, Available: 60, Limit: 30, Current: 20, InactiveFile: 4,
			Active: 3, Dirty: 1, Writeback: -1, SlabReclaimable: -1}, 14, 30, "cgroup"},
		"host is the lesser": {forecast.Host{Total: 100, Available: 5, Limit: 30, Current: 20}, 20, 25, "host"},
	} {
		s := HostState{Host: c.host}
		if r := s.Reading(); r.Used != c.used || r.Total != c.total || r.Kind != c.kind {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// Growth before the first steps belongs to the start.
func TestTheStartIsNoLeak(t *testing.T) {
	s := &scripted{devices: []Device{{Host, ""}}, total: 16 * gib,
		used: func(_ string, i int) int64 { return min(int64(i), 60) * 200 << 20 }}
	w, err := New(t.Context(), s, Options{OOM: OOMOptions{85, 95, 0}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		s.step = max(0, float64(i-59))
		warnings, err := w.Tick(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if i > 60 && len(warnings) > 0 {
			t.Errorf("at %d s: %s", i, warnings[0].Text())
		}
	}
}

// uneven is a Source that reads a memory of 16 GiB at given times.
type uneven struct {
	at   []float64 // s
	used func(s float64) float64
	i    int
}

func (u *uneven) Devices(context.Context) ([]Device, error) { return []Device{{Host, ""}}, nil }
func (u *uneven) Ended() bool                               { return u.i >= len(u.at) }
func (u *uneven) Blocks(context.Context, string) ([]Allocator, string, error) {
	return nil, "no blocks here", nil
}

func (u *uneven) Read(_ context.Context, into []Reading) ([]Reading, error) {
	s := u.at[u.i]
	u.i++
	used := int64(u.used(s) * 16 * gib)
	return append(into, Reading{Device: Host, Time: start.Add(time.Duration(s * 1e9)), Used: used, Peak: used,
		Reserved: used, Total: 16 * gib, Kind: "cgroup"}), nil
}

// denseThenSparse returns moments as a collector reads: ten a second for 20 s, then one a second.
func denseThenSparse(until float64) (at []float64) {
	for s := 0.0; s < until; {
		at = append(at, s)
		if s < 20 {
			s += 0.1
		} else {
			s++
		}
	}
	return at
}

// The mean use is the mean over time, however often memory was read.
func TestMeanUseIsOverTheTime(t *testing.T) {
	u := &uneven{at: denseThenSparse(100), used: func(s float64) float64 {
		if s < 20 {
			return 0.1
		}
		return 0.5
	}}
	w, err := New(t.Context(), u, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for !u.Ended() {
		if _, err := w.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got := float64(w.Report(What{Tool: "profile", Now: start}).Devices[Host].Statistics.AvgUtilization)
	if want := (20*10 + 79*50) / 99.0; got < want-0.5 || got > want+0.5 {
		t.Errorf("mean use %.1f %%, it is %.1f", got, want)
	}
}

// A straight leak, read as a collector reads, whose job makes steps: never "fine", never denied, and right when it is
// predicted.
func TestAStraightLeakIsNotDenied(t *testing.T) {
	for _, life := range []float64{20, 60, 90, 300} {
		u := &uneven{at: denseThenSparse(life), used: func(s float64) float64 { return 0.3 + 0.7*s/life }}
		w, err := New(t.Context(), u, Options{OOM: oomDefaults(), Job: Job{Known: true, FromStart: true}})
		if err != nil {
			t.Fatal(err)
		}
		for !u.Ended() {
			at := u.at[u.i]
			if _, err := w.Tick(t.Context()); err != nil {
				t.Fatal(err)
			}
			r := w.Report(What{Tool: "oom", Now: start})
			risk, left := &w.Devices[0].Risk, life-at
			if at < life/2+2 || left < 1 {
				continue
			}
			if !risk.Predicted || risk.Seconds < 0.85*left-0.5 || risk.Seconds > 1.15*left+0.5 || r.Verdict == "fine" {
				t.Errorf("a life of %.0f s, at %.1f s: %s, %s, %.1f s left, told %.1f", life, at, r.Verdict,
					risk.Reason, left, risk.Seconds)
			}
		}
	}
}

// A critical usage was measured: it is never reported without confidence, nor with the words that no end is in sight.
func TestCriticalIsNotDoubted(t *testing.T) {
	for name, u := range map[string]*uneven{
		"two readings": {at: []float64{0, 1}, used: func(s float64) float64 { return 0.95 + 0.02*s }},
		"flat":         {at: denseThenSparse(60), used: func(float64) float64 { return 0.97 }},
		"a sawtooth's top": {at: denseThenSparse(97),
			used: func(s float64) float64 { return 0.6 + 0.37*(s-20*float64(int(s/20)))/20 }},
	} {
		w, err := New(t.Context(), u, Options{OOM: oomDefaults(), Job: Job{Known: true, FromStart: true}})
		if err != nil {
			t.Fatal(err)
		}
		var warnings []Warning
		for !u.Ended() {
			more, err := w.Tick(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			warnings = append(warnings, more...)
		}
		r := w.Report(What{Tool: "oom", Now: start})
		for _, x := range warnings {
			if !strings.Contains(x.Text(), "\n   confidence: 0.") {
				t.Errorf("%s: no confidence in %s", name, x.Text())
			}
			if x.Risk.Usage > 90 && strings.Contains(x.Text(), "none in sight") {
				t.Errorf("%s: at %.0f %%: %s", name, x.Risk.Usage, x.Text())
			}
		}
		if d := r.Devices[Host].Risk; d.Level >= High && d.Confidence == 0 ||
			r.Verdict == "at risk" && r.Confidence == nil {
			t.Errorf("%s: %s with confidence %v", name, d.Level, d.Confidence)
		}
	}
}

// Too few readings are no all-clear.
func TestTooLittleIsUndecided(t *testing.T) {
	u := &uneven{at: []float64{0, 1, 2}, used: func(float64) float64 { return 0.3 }}
	w, err := New(t.Context(), u, Options{OOM: oomDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	for !u.Ended() {
		if _, err := w.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.Report(What{Tool: "oom", Now: start}); r.Verdict != "undecided" || r.Confidence != nil {
		t.Errorf("%s with %v", r.Verdict, r.Confidence)
	} else if a := r.Devices[Host].Risk.Advice; !strings.HasPrefix(a, "none so far: needs ") {
		t.Errorf("advised: %q", a)
	}
}

// A job that the kernel killed was at risk, whatever was read before the last of its growth.
func TestAKilledJobWasAtRisk(t *testing.T) {
	u := &uneven{at: denseThenSparse(30), used: func(float64) float64 { return 0.4 }}
	w, err := New(t.Context(), u, Options{OOM: oomDefaults(), Job: Job{Known: true}})
	if err != nil {
		t.Fatal(err)
	}
	for !u.Ended() {
		if _, err := w.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.Over(true)
	if r := w.Report(What{Tool: "oom", Now: start, Ended: "OOM kill"}); r.Verdict != "at risk" {
		t.Errorf("%s", r.Verdict)
	}
}

// Advice that was followed is not given again, and memory that was given back is not lost.
func TestFragmentAdvice(t *testing.T) {
	const mib = 1 << 20
	holes := fragment.State{Source: "test", Held: 800 * mib, InUse: 400 * mib,
		Holes: fragment.Holes{Count: 4000, Bytes: 400 * mib, Largest: 100 << 10,
			Sizes: []fragment.Class{{From: 64 << 10, To: 128 << 10, Count: 4000, Bytes: 400 * mib}}},
		Reclaimable: 380 * mib}
	trimmed := holes
	trimmed.Return([]fragment.Mapping{{Start: 64 * mib, Size: 800 * mib, Resident: 420 * mib, Heap: true,
		Writable: true}})
	for name, c := range map[string]struct {
		device  string
		a       Allocator
		verdict string
		advised []string
		never   string
	}{
		"nothing done": {Host, Allocator{State: holes}, "fragmented", []string{"malloc_trim", "MALLOC_ARENA_MAX"},
			"bounded already"},
		"arenas bounded": {Host, Allocator{State: holes, Env: map[string]string{"MALLOC_ARENA_MAX": "2"}},
			"fragmented", []string{"malloc_trim", "jemalloc"}, "MALLOC_ARENA_MAX=2"},
		"allocator replaced": {Host, Allocator{State: holes,
			Env: map[string]string{"LD_PRELOAD": "/usr/lib/libjemalloc.so.2"}}, "fragmented", []string{"malloc_trim"},
			"jemalloc"},
		"trimmed": {Host, Allocator{State: trimmed}, "fine", nil, "malloc_trim"},
		"GPU":     {"0", Allocator{State: holes}, "fragmented", []string{"expandable_segments"}, "empty_cache"},
		"GPU, expandable": {"0", Allocator{State: holes,
			Env: map[string]string{"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}}, "fragmented",
			[]string{"empty_cache"}, "expandable_segments"},
	} {
		s := &scripted{devices: []Device{{c.device, ""}}, used: steady, total: 16 * gib, blocks: []Allocator{c.a}}
		w, _ := play(t, s, Options{}, 1)
		if err := w.LookAtBlocks(t.Context(), start); err != nil {
			t.Fatal(err)
		}
		r := w.Report(What{Tool: "fragment", Now: start})
		text := strings.Join(r.Recommendations, "\n")
		for _, want := range c.advised {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in %q", name, want, text)
			}
		}
		if r.Verdict != c.verdict || strings.Contains(text, c.never) || w.Fragmented() != (c.verdict == "fragmented") {
			t.Errorf("%s: %s, %q", name, r.Verdict, text)
		}
	}
}
