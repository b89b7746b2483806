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
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/memgauge/memgauge/test/env"
)

// testBudget is more than any file of these tests needs, in bytes.
const testBudget = 256 << 20

func columns(t testing.TB, data []byte) *Columns {
	t.Helper()
	c, err := ReadColumns(context.Background(), bytes.NewReader(data), testBudget)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// sums are what reading by another program must agree on.
type sums struct {
	Events, Size, Time, Frames, Lines, Contexts, Pools, Blocks, BlockSize, BlockFrames int64
	Addr                                                                               uint64
	Segments                                                                           int64
	Actions                                                                            map[string]int64
}

func sumsOf(c *Columns) sums {
	s := sums{Events: int64(c.Len()), Segments: int64(len(c.Segments)), Blocks: int64(len(c.Blocks)),
		Actions: map[string]int64{}}
	for i := range c.Len() {
		s.Size, s.Time, s.Addr = s.Size+c.Size[i], s.Time^c.Time[i], s.Addr^c.Addr[i]
		for _, f := range c.StackFrames(c.Stack[i]) {
			_, _, line := c.FrameTexts(f)
			s.Frames, s.Lines = s.Frames+1, s.Lines+int64(line)
		}
		if c.Text(c.Context[i]) == "N/A" {
			s.Contexts++
		}
		if c.Pool[i] != 0 {
			s.Pools++
		}
		s.Actions[c.Actions[c.Action[i]]]++
	}
	for _, b := range c.Blocks {
		s.BlockSize, s.BlockFrames = s.BlockSize+b.Size, s.BlockFrames+int64(len(c.StackFrames(b.Stack)))
	}
	return s
}

// pythonSums reads a pickle with Python's own reader.
const pythonSums = `
import collections, json, pickle, sys
d = pickle.load(open(sys.argv[1], 'rb'))
events = [e for t in d['device_traces'] for e in t]
blocks = [b for s in d['segments'] for b in s['blocks']]
addr = time = 0
for e in events:
    addr ^= e.get('addr', e.get('device_free', 0)) & (1 << 64) - 1
    time ^= e.get('time_us', 0)
frames = lambda x: x.get('frames') or []
json.dump({'Events': len(events), 'Segments': len(d['segments']), 'Blocks': len(blocks), 'Size': sum(e.get('size', 0) for e in events),
           'Time': time, 'Addr': addr, 'Frames': sum(len(frames(e)) for e in events),
           'Lines': sum(f['line'] for e in events for f in frames(e)), 'Contexts': sum(e.get('compile_context') == 'N/A' for e in events),
           'Pools': sum(tuple(e.get('pool_id', (0, 0))) != (0, 0) for e in events), 'BlockSize': sum(b['size'] for b in blocks),
           'BlockFrames': sum(len(frames(b)) for b in blocks), 'Actions': collections.Counter(e['action'] for e in events)}, sys.stdout)
`

// Columns hold what pickle.load gives, for every protocol, pickler and shape that is at hand.
func TestColumnsAgreeWithPython(t *testing.T) {
	pythons := env.CPythons(t)
	python := pythons[len(pythons)-1]
	dir := t.TempDir()
	script := filepath.Join(env.Checkout(), "test", "bench", "snapshots.py")
	paths := []string{mosaic}
	for devices := 1; devices <= 3; devices += 2 {
		for protocol := 2; protocol <= 5; protocol++ {
			path := filepath.Join(dir, fmt.Sprintf("%d-%d.pickle", devices, protocol))
			args := []string{script, "--megabytes", "2", "--devices", fmt.Sprint(devices), "--protocol",
				fmt.Sprint(protocol), path}
			if out, err := python.Command(t, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
		out, err := python.Command(t, "-c", pythonSums, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		var want sums
		if err := json.Unmarshal(out, &want); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := sumsOf(columns(t, data)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s:\n got %v\nwant %v", filepath.Base(path), got, want)
		}
	}
}

// A packed file is read as the plain one is, and one that is cut says so.
func TestColumnsPacked(t *testing.T) {
	plain, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprint(sumsOf(columns(t, plain)))
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	z, _ := zstd.NewWriter(&zs)
	g.Write(plain)
	z.Write(plain)
	if err := errors.Join(g.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	for _, packed := range [][]byte{gz.Bytes(), zs.Bytes()} {
		if got := fmt.Sprint(sumsOf(columns(t, packed))); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	c := columns(t, gz.Bytes()[:gz.Len()*9/10])
	if c.Cut == nil || !strings.Contains(c.Cut.Error(), "unpack") || c.Len() == 0 {
		t.Errorf("cut at nine tenths: %v, %d events, %d segments", c.Cut, c.Len(), len(c.Segments))
	}
	if _, err := ReadColumns(context.Background(), bytes.NewReader(zs.Bytes()[:20]), testBudget); err == nil ||
		!strings.Contains(err.Error(), "unpack") {
		t.Errorf("cut at 20 bytes: %v", err)
	}
}

// Wherever a file is cut, what stood before the cut is read: never less than at an earlier cut, and never something
// else.
func TestColumnsCut(t *testing.T) {
	whole, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	full := columns(t, whole)
	events, segments := 0, 0
	for at := 3; at < len(whole); at += 997 {
		c, err := ReadColumns(context.Background(), bytes.NewReader(whole[:at]), testBudget)
		if err != nil {
			if events+segments > 0 {
				t.Fatalf("cut at %d: %v, after %d events and %d segments at an earlier one", at, err, events, segments)
			}
			continue
		}
		if c.Cut == nil || c.Len() < events || len(c.Segments) < segments {
			t.Fatalf("cut at %d: %v, %d events (%d before), %d segments (%d before)", at, c.Cut, c.Len(), events,
				len(c.Segments), segments)
		}
		events, segments = c.Len(), len(c.Segments)
		for i := range c.Len() {
			if c.Addr[i] != full.Addr[i] || c.Size[i] != full.Size[i] || c.Time[i] != full.Time[i] {
				t.Fatalf("cut at %d: event %d differs", at, i)
			}
		}
		c.Close()
	}
	if events < full.Len()*9/10 {
		t.Errorf("the last cut left %d of %d events", events, full.Len())
	}
}

// What a hostile file asks for is refused within the budget, and at its place.
func TestColumnsHostile(t *testing.T) {
	pre := "\x80\x04"
	event := "}\x94(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02u"
	root := func(s string) string { return pre + "}\x94\x8c\x0ddevice_traces]\x94]\x94" + s + "aas." }
	for _, c := range []struct{ name, data, want string }{
		{"good", root(event), ""},
		{"garbage behind", root(event) + "garbage\x00", ""},
		{"a key that is a list", root(strings.Replace(event, "\x8c\x04size", "]", 1)), ""},
		{"code", pre + "cos\nsystem\n\x8c\x02id\x85R.", "GLOBAL"},
		{"code on the stack", pre + "\x8c\x02os\x8c\x06system\x93.", "STACK_GLOBAL"},
		{"instance", pre + "(ios\nsystem\n.", "INST"},
		{"persistent id", pre + "Pabc\n.", "PERSID"},
		{"extension", pre + "\x82\x01.", "EXT1"},
		{"zip", "PK\x03\x04aaaa", "not a pickle"},
		{"protocol 0", "(dp0\n.", "not a pickle"},
		{"deep", pre + strings.Repeat("](", 1000) + ".", "nested deeper than 64"},
		{"deep without marks", pre + strings.Repeat("]", 40<<20) + ".", "more than the"},
		{"long of 255 bytes", pre + "\x8a\xff" + strings.Repeat("\x01", 255) + ".", "integer of 255 bytes"},
		{"long of 2 GiB", pre + "\x8b\xff\xff\xff\x7f.", "integer of"},
		{"text of 4 GiB", pre + "X\xff\xff\xff\xff.", "text of"},
		{"far memo", pre + "]r\xf0\xff\xff\xff.", "before it can have that many"},
		{"memo that is not set", pre + "j\x07\x00\x00\x00.", "has not stored"},
		{"memo written twice", pre + "]q\x00}q\x00.", "stores value 0 twice"},
		{"list in itself", pre + "]\x94h\x00a.", "not a memory snapshot"},
		{"event twice", pre + "}\x94\x8c\x0ddevice_traces]\x94]\x94(" + event + "h\x03eas.", "a row is in two lists"},
		{"one list for two devices", pre + "}\x94\x8c\x0ddevice_traces]\x94(]\x94" + event + "ah\x02es.",
			"two devices"},
		{"laughs", pre + "]\x94(" + strings.Repeat("]\x94(h\x00h\x00h\x00h\x00h\x00h\x00h\x00h\x00e", 20) + "e.",
			"not a memory snapshot"},
		{"size is text", root(strings.Replace(event, "sizeK\x02", "size\x8c\x01x", 1)), "size is not an integer"},
		{"size is negative", root(strings.Replace(event, "sizeK\x02", "sizeJ\xff\xff\xff\xff", 1)),
			"size is not a size"},
		{"action is a number", root(strings.Replace(event, "\x8c\x05alloc", "K\x05", 1)), "not text"},
		{"odd dict", pre + "}(K\x01u.", "no value"},
		{"no mark", pre + "}u.", "mark that it has not set"},
		{"nothing to append to", pre + "a.", "stack that has fewer"},
		{"nothing to remember", pre + "\x94.", "does not have"},
		{"three values", pre + "NNN.", "with 3 values"},
		{"frames of numbers", root(strings.Replace(event, "\x8c\x04addr", "\x8c\x06frames](K\x01K\x02e\x8c\x04addr",
			1)), "frames is not a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cols, err := ReadColumns(context.Background(), strings.NewReader(c.data), 64<<20)
			if err == nil {
				cols.Close()
			}
			switch {
			case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
				!errors.Is(err, ErrFormat)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Ctrl-C ends the reading.
func TestColumnsCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	data, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadColumns(ctx, bytes.NewReader(data), testBudget); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Every cut and every changed byte ends in an answer or an error.
func FuzzColumns(f *testing.F) {
	f.Add(
		[]byte(`{"baseTimeNanoseconds": 1, "traceEvents": [{"ph":"X","cat":"python_function","name":"a.py(3): f","tid":1,"ts":1,"dur":9,"args":{"CallFrom":"b.py:2"}},
		{"ph":"i","name":"[memory]","tid":1,"ts":5,"args":{"Bytes":10,"Addr":1,"Device Id":1,"Device Type":1,"Total Reserved":100}}]}`))
	whole, err := os.ReadFile(mosaic)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:20000])
	f.Add(
		[]byte("\x80\x04}\x94\x8c\x0ddevice_traces]\x94]\x94}\x94(\x8c\x06action\x8c\x05alloc\x8c\x04addrK\x01\x8c\x04sizeK\x02uaas."))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ReadColumns(context.Background(), bytes.NewReader(data), 32<<20)
		if err != nil {
			return
		}
		sumsOf(c)
		c.Snapshot()
		c.Close()
	})
}

// Changed copies of a real file.
func TestColumnsMutated(t *testing.T) {
	whole, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	whole = whole[:min(len(whole), 120_000)]
	x, read := uint32(1), 0
	next := func(n int) int {
		x = x*1664525 + 1013904223
		return int(x>>8) % n
	}
	copies := env.Times(400, 3000)
	for i := range copies {
		data := bytes.Clone(whole)
		for range 1 + i%4 {
			data[next(len(data))] = byte(next(256))
		}
		if i%3 == 0 {
			data = data[:next(len(data))]
		}
		if c, err := ReadColumns(context.Background(), bytes.NewReader(data), testBudget); err == nil {
			read++
			sumsOf(c)
			c.Close()
		}
	}
	t.Logf("%d of %d could be read", read, copies)
	trace := profiled(t)[:60_000] // 40 of its events
	for range 200 {
		data := bytes.Clone(trace)
		data[next(len(data))] = byte(next(256))
		if c, err := ReadColumns(context.Background(), bytes.NewReader(data), testBudget); err == nil {
			sumsOf(c)
			c.Close()
		}
	}
}

func BenchmarkReadColumns(b *testing.B) {
	data, err := os.ReadFile(mosaic)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		c, err := ReadColumns(context.Background(), bytes.NewReader(data), testBudget)
		if err != nil {
			b.Fatal(err)
		}
		c.Close()
	}
}

// What is written from columns is read as what they were, by us and by Python, also where the file had a protocol that
// old viewers don't know.
func TestWriteColumns(t *testing.T) {
	pythons := env.CPythons(t)
	python := pythons[len(pythons)-1]
	dir := t.TempDir()
	made, written := filepath.Join(dir, "made.pickle"), filepath.Join(dir, "written.pickle")
	script := filepath.Join(env.Checkout(), "test", "bench", "snapshots.py")
	if out, err := python.Command(t, script, "--megabytes", "2", "--devices", "3", "--oom", "--protocol", "5",
		made).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, path := range []string{made, mosaic} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := columns(t, data)
		var out bytes.Buffer
		if err := WriteColumns(context.Background(), &out, c); err != nil {
			t.Fatal(err)
		}
		again := columns(t, out.Bytes())
		if got, want := fmt.Sprint(sumsOf(again)), fmt.Sprint(sumsOf(c)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", path, got, want)
		}
		if got, want := again.Snapshot(), c.Snapshot(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: what was written differs", path)
		}
		if err := os.WriteFile(written, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		compare := `
import pickle, sys
a, b = (pickle.load(open(p, 'rb')) for p in sys.argv[1:])
for x, y in zip(a['device_traces'], b['device_traces']):
    assert len(x) == len(y)
    for e, f in zip(x, y):
        assert all(e[k] == f.get(k, (0, 0)) for k in e), (e, f)
`
		if path == mosaic { // its events lack keys, which are written with what they mean
			continue
		}
		if text, err := python.Command(t, "-c", compare, path, written).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	data, _ := os.ReadFile(made)
	if err := WriteColumns(ctx, io.Discard, columns(t, data)); !errors.Is(err, context.Canceled) {
		t.Errorf("called off: %v", err)
	}
}

// A list that can't be written is given up at once.
func TestWritingEndsWithItsFile(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p, items := &pickler{w: &calledOff{io.Discard, ctx}}, 0
	p.list(1<<20, func(int) {
		items++
		p.raw(make([]byte, 1<<10)...)
	})
	if p.err == nil || items > 2*chunk>>10 {
		t.Errorf("after %d items of 1 KiB: %v", items, p.err)
	}
}

// pinned is what PyTorch 2.15 writes with record_pinned_host_memory=True, in its order: the host's segments have the
// device -1, and one list has all its events.
const pinned = `
import pickle, sys
def event(action, addr, size):
    return {'action': action, 'addr': addr, 'size': size, 'stream': 0, 'time_us': addr, 'pool_id': (0, 0), 'frames': []}
def segment(device, address, total):
    return {'device': device, 'address': address, 'total_size': total, 'allocated_size': 512, 'active_size': 512, 'requested_size': 512,
            'stream': 0, 'segment_type': 'small', 'segment_pool_id': (0, 0), 'is_expandable': False,
            'blocks': [{'address': address, 'size': 512, 'requested_size': 512, 'state': 'active_allocated', 'frames': []}]}
pickle.dump({'segments': [segment(0, 4096, 1024), segment(1, 8192, 2048)], 'device_traces': [[event('alloc', 4096, 512)], []],
             'allocator_settings': {}, 'external_annotations': [], 'host_segments': [segment(-1, 65536, 512)],
             'host_traces': [event('segment_alloc', 65536, 512), event('alloc', 65536, 512)]}, open(sys.argv[1], 'wb'))
`

// Pinned host memory is a device of its own, behind those that have numbers, and written again as what it was.
func TestPinnedHostMemory(t *testing.T) {
	pythons := env.CPythons(t)
	path := filepath.Join(t.TempDir(), "pinned.pickle")
	if out, err := pythons[len(pythons)-1].Command(t, "-c", pinned, path).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	c := columns(t, data)
	var again bytes.Buffer
	if err := WriteColumns(t.Context(), &again, c); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*Columns{c, columns(t, again.Bytes())} {
		if len(c.Rows) != 2 || c.Rows[1] != (Rows{2, 1, 3}) || c.Device[2] != 2 || c.Segments[2].Device != 2 ||
			c.DeviceNames[2] != PinnedHost {
			t.Errorf("got rows %v, devices %v, segments %+v, names %v", c.Rows, c.Device, c.Segments, c.DeviceNames)
		}
	}
	if !bytes.Contains(again.Bytes(), []byte("host_traces")) {
		t.Error("written as another device")
	}
}
