package anatomy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/test/env"
)

const mosaic = "../../../testdata/snapshots/mosaic.pickle"

func open(t testing.TB, path string) *History {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.ReadColumns(context.Background(), bytes.NewReader(data), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return New(c)
}

// historyOf is what a file of the snapshot says.
func historyOf(t testing.TB, s *snapshot.Snapshot) *History {
	t.Helper()
	var file bytes.Buffer
	if err := snapshot.WritePickle(&file, s); err != nil {
		t.Fatal(err)
	}
	c, err := snapshot.ReadColumns(context.Background(), &file, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return New(c)
}

// made writes a snapshot of a training that never was; see test/bench/snapshots.py.
func made(t testing.TB, args ...string) string {
	t.Helper()
	pythons := env.CPythons(t)
	path := filepath.Join(t.TempDir(), "made.pickle")
	script := filepath.Join(env.Checkout(), "test", "bench", "snapshots.py")
	if out, err := pythons[len(pythons)-1].Command(t,
		append(append([]string{script}, args...), path)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// naive replays a snapshot's events one by one on a dict, and tells the live bytes after each, the peaks, and what is
// live at the end, device by device.
const naive = `
import json, pickle, sys
d = pickle.load(open(sys.argv[1], 'rb'))
out = []
for number, events in enumerate(d['device_traces']):
    end = {b['address']: b['requested_size'] for s in d['segments'] if s['device'] == number
           for b in s['blocks'] if b['state'] != 'inactive'}
    live, fresh = dict(end), set()
    for e in reversed(events):                  # back from the end to the beginning
        if e['action'] == 'alloc': live.pop(e['addr'], None)
        elif e['action'] == 'free_completed': live[e['addr']] = e['size']
    split = 0                                   # free memory in pages that something lies in
    for s in d['segments']:
        if s['device'] != number: continue
        page, used, active = 20 << 20 if s['segment_type'] == 'large' else 2 << 20, set(), 0
        for b in s['blocks']:
            at = b['address'] - s['address']
            if b['state'] == 'inactive': continue
            used.update(range(at // page, (at + b['size'] - 1) // page + 1))
            active += b['size']
        if active: split += (len(used) * page if s.get('is_expandable') else s['total_size']) - active
    levels, reserved = [], sum(s['total_size'] for s in d['segments'] if s['device'] == number)
    sign = {'segment_alloc': 1, 'segment_map': 1, 'segment_free': -1, 'segment_unmap': -1}
    reserved -= sum(sign.get(e['action'], 0) * e['size'] for e in events)
    at, top = sum(live.values()), reserved
    for e in events:
        if e['action'] == 'alloc':
            live[e['addr']] = e['size']; fresh.add(e['addr']); at += e['size']
        elif e['action'] == 'free_completed':
            at -= live.pop(e['addr'])
        reserved += sign.get(e['action'], 0) * e['size']
        top = max(top, reserved)
        levels.append(at)
    out.append({'Levels': levels, 'Live': sorted(live.items()), 'Top': top, 'Split': split})
json.dump(out, sys.stdout)
`

// Live bytes after every event, peaks and the blocks at the end are what a naive replay in Python gives.
func TestAgreesWithNaiveReplay(t *testing.T) {
	pythons := env.CPythons(t)
	paths := map[string]string{
		"mosaic": mosaic, "one device": made(t, "--megabytes", "1"), "three devices": made(t, "--megabytes", "2",
			"--devices", "3", "--leak", "100000"),
		"expandable segments": made(t, "--megabytes", "6", "--expandable", "--sites", "300", "--leak", "5000000"),
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			text, err := pythons[len(pythons)-1].Command(t, "-c", naive, path).Output()
			if err != nil {
				t.Fatal(err)
			}
			var want []struct {
				Levels []int64
				Live   [][2]uint64
				Top    int64
				Split  int64
			}
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			h := open(t, path)
			for _, d := range h.Devices {
				w := want[d.Number]
				if got := h.Live[d.From:d.To]; fmt.Sprint(got) != fmt.Sprint(w.Levels) {
					t.Errorf("device %d: live bytes differ", d.Number)
				}
				if d.PeakReserved().Bytes != w.Top {
					t.Errorf("device %d: peak reserved %d, want %d", d.Number, d.PeakReserved().Bytes, w.Top)
				}
				if got := h.endState(d).Splits; got != w.Split {
					t.Errorf("device %d: %d bytes beside blocks in use, want %d", d.Number, got, w.Split)
				}
				live, wantLive := 0, int64(0)
				h.alive(d, d.To-1, func(_, _ int, bytes int64, _ uint32) { live++; wantLive -= bytes })
				for _, b := range w.Live {
					wantLive += int64(b[1])
				}
				if live != len(w.Live) || wantLive != 0 {
					t.Errorf("device %d: %d blocks live at the end, want %d; bytes differ by %d", d.Number, live,
						len(w.Live), wantLive)
				}
			}
		})
	}
}

// What is told of a peak adds up to it, by line, by path and by use, at the peak and at any other moment.
func TestPartsAddUp(t *testing.T) {
	h := open(t, made(t, "--megabytes", "1", "--devices", "2"))
	for _, d := range h.Devices {
		p := h.peak(d)
		sum := int64(0)
		for _, s := range p.Categories {
			sum += s.Bytes
		}
		if sum != p.Requested || p.Requested != d.PeakLive || p.Allocated < p.Requested {
			t.Errorf("device %d: uses add up to %d, peak %d, in blocks %d", d.Number, sum, p.Requested, p.Allocated)
		}
		for row := d.From; row < d.To; row += 997 {
			sum := int64(0)
			h.alive(d, row, func(_, _ int, bytes int64, _ uint32) { sum += bytes })
			if sum != h.Live[row] {
				t.Fatalf("row %d: blocks add up to %d, live %d", row, sum, h.Live[row])
			}
		}
	}
}

// A step that keeps 64 KiB is found, with its line, and judged once there are enough of them; one that keeps nothing
// isn't.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		leak    string
		verdict string
	}{{"0", "healthy"}, {"65536", "leak"}} {
		h := open(t, made(t, "--megabytes", "16", "--sites", "100", "--leak", c.leak))
		g := h.Report().Devices[0].Growth
		if g.Verdict != c.verdict || g.By != "## step N ##" {
			t.Errorf("leak of %s bytes a step: %+v", c.leak, g)
		}
		if c.leak != "0" && (g.Rate < 60_000 || g.Rate > 72_000 || len(g.Sites) == 0) {
			t.Errorf("leak of %s bytes a step: %+v", c.leak, g)
		}
	}
}

// What differs between two trainings is found at its line; the same file twice has no differences.
func TestCompare(t *testing.T) {
	a, b := open(t, made(t, "--megabytes", "4", "--sites", "100")),
		open(t, made(t, "--megabytes", "4", "--sites", "100", "--leak", "65536"))
	if d := Compare(a, a, nil, nil); len(d) != 1 ||
		len(d[0].Peak.Sites)+len(d[0].End.Sites)+len(d[0].End.Categories) != 0 {
		t.Errorf("a file beside itself: %+v", d)
	}
	d := Compare(a, b, nil, nil)
	sum := int64(0)
	for _, s := range d[0].End.Sites {
		sum += s.Changed
	}
	if want := d[0].End.Bytes[1] - d[0].End.Bytes[0]; d[0].End.SitesLeft != 0 || sum != want || want == 0 {
		t.Errorf("changes add up to %d, want %d", sum, want)
	}
}

// A line that has moved within its function is the same line.
func TestMoved(t *testing.T) {
	a := tally{"m.py:10 f": {}, "m.py:20 f": {}, "m.py:30 g": {}, "m.py:40 h": {}, "x y.py:1 f": {}}
	b := tally{"m.py:12 f": {}, "m.py:22 f": {}, "m.py:30 g": {}, "m.py:41 h": {}, "m.py:43 h": {}, "x y.py:2 f": {}}
	want := map[string]string{"m.py:12 f": "m.py:10 f", "m.py:22 f": "m.py:20 f", "x y.py:2 f": "x y.py:1 f"}
	if got := moved(a, b, nil, nil); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
}

// Text tells lines that have changed places, and files of the same name in another directory are the same file.
func TestMovedByText(t *testing.T) {
	texts := func(lines map[string]string) Source {
		return func(file string, line int) string { return lines[fmt.Sprintf("%s:%d", file, line)] }
	}
	a := tally{"/a/m.py:10 f": {}, "/a/m.py:20 f": {}, "/a/m.py:30 f": {}, "/a/n.py:1 g": {}, "/a/n.py:2 g": {}}
	b := tally{"/b/m.py:11 f": {}, "/b/m.py:12 f": {}, "/b/n.py:1 g": {}}
	sourceA := texts(map[string]string{"/a/m.py:10": "x = new()", "/a/m.py:20": "y = other()", "/a/m.py:30": "gone()"})
	sourceB := texts(map[string]string{"/b/m.py:11": "y = other()", "/b/m.py:12": "x = new()"})
	want := map[string]string{"/b/m.py:11 f": "/a/m.py:20 f", "/b/m.py:12 f": "/a/m.py:10 f"}
	if got := moved(a, b, sourceA, sourceB); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
	delete(a, "/a/n.py:2 g")
	want["/b/n.py:1 g"] = "/a/n.py:1 g"
	if got := moved(a, b, sourceA, sourceB); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v", got)
	}
}

// An OOM says what was asked for, what there was, and what is missing.
func TestOutOfMemory(t *testing.T) {
	h := open(t, made(t, "--megabytes", "1", "--oom"))
	oom := h.Report().Devices[0].OOMs
	if len(oom) != 1 || oom[0].Asked != 8<<30 || oom[0].DeviceFree != 1<<30 {
		t.Fatalf("got %+v", oom)
	}
	if o := oom[0]; o.Unused != o.Reserved-o.Live || o.Missing != o.Asked-o.DeviceFree-o.Unused || len(o.Holders) == 0 {
		t.Errorf("got %+v", o)
	}
}

// addresses does what a map does.
func TestAddresses(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	a, want := newAddresses(), map[uint64]int32{}
	for i := range int32(200_000) {
		addr := rnd.Uint64N(4000) << 9
		switch row, ok := want[addr]; rnd.IntN(3) {
		case 0:
			a.put(addr, i)
			want[addr] = i
		case 1:
			if got, found := a.take(addr); found != ok || ok && got != row {
				t.Fatalf("take %d: %d %v, want %d %v", addr, got, found, row, ok)
			}
			delete(want, addr)
		default:
			if got, found := a.get(addr); found != ok || ok && got != row {
				t.Fatalf("get %d: %d %v, want %d %v", addr, got, found, row, ok)
			}
		}
		if a.used != len(want) {
			t.Fatalf("%d used, want %d", a.used, len(want))
		}
	}
}

func TestPhases(t *testing.T) {
	for _, c := range []struct {
		file, name string
		want       phase
	}{
		{"/x/site-packages/torch/nn/modules/module.py", "_wrapped_call_impl", forwardPhase},
		{"/x/site-packages/torch/nn/modules/linear.py", "__init__", setupPhase},
		{"/x/site-packages/torch/optim/adam.py", "_init_group", optimizerPhase},
		{"/x/site-packages/torch/autograd/graph.py", "_engine_run_backward", backwardPhase},
		{"??", "torch::autograd::Engine::evaluate_function(std::shared_ptr<torch::autograd::GraphTask>&)",
			backwardPhase},
		{"/srv/train.py", "main", otherPhase},
		{"/srv/model.py", "forward", forwardPhase},
	} {
		if got := phaseOf(snapshot.Frame{File: c.file, Name: c.name}); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.file, c.name, got, c.want)
		}
	}
}

// A file of Python that anybody may have written is the user's; a library's is not.
func TestUserFiles(t *testing.T) {
	for path, want := range map[string]bool{
		"train/model.py": true, "/srv/x.py": true, "<ipython-input-3-0123>": true, "/tmp/ipykernel_12/34.py": true,
		"/usr/lib/python3.11/threading.py": false, "/x/site-packages/torch/_ops.py": false, "model.cpp": false,
		"??": false, "": false,
	} {
		if isUserFile(path) != want {
			t.Errorf("%q: %v", path, !want)
		}
	}
}

func BenchmarkHistory(b *testing.B) {
	data, err := os.ReadFile(made(b, "--megabytes", "50"))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c, err := snapshot.ReadColumns(context.Background(), bytes.NewReader(data), 1<<30)
		if err != nil {
			b.Fatal(err)
		}
		New(c).Report()
		c.Close()
	}
}

// withoutHistory writes what torch.cuda.memory._snapshot() gives where nothing was recorded: the segments alone.
const withoutHistory = `
import pickle, sys
d = pickle.load(open(sys.argv[1], 'rb'))
d['device_traces'] = [[] for _ in d['device_traces']]
pickle.dump(d, open(sys.argv[1], 'wb'), protocol=4)
`

// A snapshot without a history still tells what is live at its end: it can be compared and drawn.
func TestWithoutHistory(t *testing.T) {
	path := made(t, "--megabytes", "1", "--devices", "2", "--leak", "65536", "--sites", "300")
	whole := open(t, path)
	pythons := env.CPythons(t)
	if out, err := pythons[len(pythons)-1].Command(t, "-c", withoutHistory, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	bare := open(t, path)
	for _, d := range Compare(whole, bare, nil, nil) {
		// an event tells what was rounded up, a block what was asked for: 4 bytes less
		for _, site := range d.End.Sites {
			if site.Blocks[0] != site.Blocks[1] || site.Changed != -4*int64(site.Blocks[0]) {
				t.Errorf("device %d: at the end %+v", d.DeviceA, site)
			}
		}
		if d.Peak.Bytes[1] != d.End.Bytes[1] {
			t.Errorf("device %d: the peak is %d, the end %d", d.DeviceA, d.Peak.Bytes[1], d.End.Bytes[1])
		}
	}
	d, err := bare.Device(1)
	if err != nil {
		t.Fatal(err)
	}
	for moment, want := range map[string]bool{"peak": true, "end": true, "7": false, "1s": false} {
		row, err := bare.Moment(d, moment)
		if (err == nil) != want || want && row != d.EndRow() {
			t.Errorf("moment %s: row %d, %v", moment, row, err)
		}
	}
}

// Where the history only gives back, most was live before its first event.
func TestPeakBeforeTheHistory(t *testing.T) {
	h := historyOf(t, &snapshot.Snapshot{Traces: [][]snapshot.Event{
		{{Action: snapshot.Alloc, Addr: 512, Size: 100, Time: 1}},
		{{Action: snapshot.FreeCompleted, Addr: 512, Size: 2000, Time: 1},
			{Action: snapshot.Alloc, Addr: 512, Size: 1000, Time: 2}},
	}})
	report := h.Report()
	if p := report.Devices[0].Peak; p.Row != 0 || p.Requested != 100 {
		t.Errorf("what is allocated: row %d, %d bytes", p.Row, p.Requested)
	}
	p := report.Devices[1].Peak
	if p.Row != None || p.Requested != 2000 || p.FromBefore != 2000 || len(p.Holders) != 1 || p.Time != 0 {
		t.Errorf("what is freed: %+v", p)
	}
}

// What the allocator had at the end adds up: what was asked for, what blocks have beyond it, and what is free.
func TestSegmentsAddUp(t *testing.T) {
	for _, name := range []string{"h100-segments.pickle.gz", "h100-expandable.pickle.gz", "mosaic.pickle"} {
		h := open(t, "../../../testdata/snapshots/"+name)
		for _, d := range h.Devices {
			e := h.endState(d)
			var requested int64
			for _, b := range h.Blocks {
				if b.State != snapshot.Inactive {
					requested += b.Requested
				}
			}
			lost := e.Allocated + e.Pending - requested
			if e.Rounding+e.Rests != lost || e.Rounding < 0 || e.Rests < 0 {
				t.Errorf("%s: %d lost by rounding and %d in rests, want %d", name, e.Rounding, e.Rests, lost)
			}
			g := flame.New("")
			h.FlameSegments(g, d)
			leaves := map[string]int64{}
			var walk func(n *flame.Node)
			walk = func(n *flame.Node) {
				if len(n.Children) == 0 {
					leaves[n.Name] += n.Value
				}
				for _, c := range n.Children {
					walk(c)
				}
			}
			walk(g.Root)
			if g.Root.Value != e.Reserved || leaves[freeFrame] != e.Free || leaves[roundFrame] != e.Rounding ||
				leaves[restFrame] != e.Rests {
				t.Errorf("%s: %d drawn of %d reserved; %v, want %+v", name, g.Root.Value, e.Reserved, leaves, e)
			}
		}
	}
}

// A rest that is too small to be split off is told apart from rounding.
func TestRests(t *testing.T) {
	for _, c := range []struct{ size, requested, rounding, rest int64 }{
		{512, 4, 508, 0}, {512, 512, 0, 0}, {2 << 20, 1<<20 + 1, 511, 1<<20 - 512}, {2048, 0, 0, 2048},
	} {
		rounding, rest := Lost(&snapshot.BlockRow{Size: c.size, Requested: c.requested})
		if rounding != c.rounding || rest != c.rest {
			t.Errorf("%d of %d: %d and %d, want %d and %d", c.requested, c.size, rounding, rest, c.rounding, c.rest)
		}
	}
}
