package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fragment"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// scripted is a Source that plays readings, one a device and call.
type scripted struct {
	devices []Device
	used    func(device string, i int) int64
	total   int64
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
		r := Reading{Device: d.ID, Time: start.Add(time.Duration(s.i) * time.Second), Used: u, Peak: u, Reserved: u + u/10, Total: s.total, Kind: "device", Step: s.step}
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

// The documents of both generations of the tools show their reports; every path in them must be in ours, with a value of
// the same type. Units follow from the names and are checked by value below.
func TestSeedsReports(t *testing.T) {
	text, err := os.ReadFile("../../testdata/seeds/tinytorch-memory-debug-tools.zh-CN.md")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{devices: gpu0, used: growing, total: 16 * gib, blocks: []Allocator{{PID: 7, Rank: 0, State: fragment.State{Source: "test", Held: 100, InUse: 80, Holes: fragment.Holes{Count: 2, Bytes: 20, Largest: 15}}}}}
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

// The same quantities in the units that the seeds' samples have: bytes, percent, 2^30 bytes, 2^20 bytes a second, seconds.
func TestReportsUnits(t *testing.T) {
	s := &scripted{devices: []Device{{"0", "Fake"}}, used: growing, total: 16 * gib}
	w, _ := play(t, s, Options{OOM: oomDefaults()}, 400)
	r := w.Report(What{Tool: "oom", Now: start, Snapshots: true})
	d := r.Devices["0"]
	used := growing("0", 399)
	if d.CurrentUsage.Allocated != used || d.CurrentUsage.Free != 16*gib-used || d.CurrentUsage.Total != 16*gib || r.Summary.MemoryGB != 16 {
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
	if len(d.Snapshots) != 400 || d.Statistics.Samples != 400 || d.PeakMemory != growing("0", 398) && d.PeakMemory != used {
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
	for _, want := range []string{"[WARNING] OOM warning: GPU 0\n", "   risk level: critical\n", "   current usage: 9", "   predicted OOM: in ", "   confidence: 0.", "   advice: "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if w.Worst() != Critical {
		t.Errorf("worst %v", w.Worst())
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
	if e := r.Devices["0"].Error; e == nil || *e != "it fell off the bus" || r.Devices[Host].Statistics.Samples != 10 || len(r.Events) != 1 {
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
		s           HostState
		used, total int64
		kind        string
	}{
		"no cgroup":          {HostState{Total: 100, Available: 60, Limit: -1, Current: -1}, 40, 100, "host"},
		"cgroup":             {HostState{Total: 100, Available: 60, Limit: 30, Current: 20, InactiveFile: 4, Active: 3, Dirty: 1, Writeback: -1, SlabReclaimable: -1}, 14, 30, "cgroup"},
		"host is the lesser": {HostState{Total: 100, Available: 5, Limit: 30, Current: 20}, 20, 25, "host"},
	} {
		if r := c.s.Reading(); r.Used != c.used || r.Total != c.total || r.Kind != c.kind {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// What grows before the first steps is the start.
func TestTheStartIsNoLeak(t *testing.T) {
	s := &scripted{devices: []Device{{Host, ""}}, total: 16 * gib, used: func(_ string, i int) int64 { return min(int64(i), 60) * 200 << 20 }}
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
