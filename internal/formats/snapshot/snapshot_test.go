package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

const mosaic = "../../../testdata/snapshots/mosaic.pickle"

func read(t *testing.T, data []byte) *Snapshot {
	t.Helper()
	s, _, err := Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func file(t *testing.T, path string) *Snapshot {
	t.Helper()
	s, _, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The counts were taken with Python's own pickle.
func TestMosaicSnapshot(t *testing.T) {
	s := file(t, mosaic)
	if len(s.Segments) != 5 || len(s.Traces) != 1 || len(s.Traces[0]) != 1040 || len(s.Annotations) != 6 {
		t.Fatalf("%d segments, %d traces, %d annotations", len(s.Segments), len(s.Traces), len(s.Annotations))
	}
	g := s.Segments[0]
	if g.Address != 114578098401 || g.Size != 52428800 || g.Active != 17042336 || g.Kind != "small" || !g.Expandable {
		t.Errorf("first segment %+v", g)
	}
	b := g.Blocks[1]
	if b.Address != 114578098913 || b.Size != 512 || b.Requested != 4 || b.State != Allocated {
		t.Errorf("second block %+v", b)
	}
	e := s.Traces[0][0]
	want := Event{Action: Alloc, Addr: 78125042165853, Size: 97606738, Time: 1759252584204770, Context: "context2",
		Frames: []Frame{{"/path/to/baz.py", 1325, "bar"}, {"/path/to/foo.py", 1415, "bar"},
			{"/path/to/foo.py", 1237, "bar"}}}
	if !reflect.DeepEqual(e, want) {
		t.Errorf("first event %+v", e)
	}
	if a := s.Annotations[5]; a != (Annotation{"END", "Annotation3", 0, 1759252852603777}) {
		t.Errorf("last annotation %+v", a)
	}
}

func TestRoundTrips(t *testing.T) {
	s := file(t, mosaic)
	s.Traces[0] = append(s.Traces[0], Event{Action: OOM, Size: 1 << 40, DeviceFree: 12, Thread: 7, Metadata: "ü"})
	s.Segments = append(s.Segments, Segment{Address: 1<<63 + 512, Size: 512, Kind: "large", Pool: [2]int64{3, -1},
		Blocks: []Block{{1<<63 + 512, 512, 500, Inactive, nil}}})
	s.Settings = []Setting{{"a", "x"}, {"b", int64(-70000)}, {"c", 0.5}, {"d", true}, {"e", nil},
		{"f", []Setting{{"1", int64(4)}, {"2", int64(0)}}}}
	var pickle, lines bytes.Buffer
	if err := errors.Join(WritePickle(&pickle, s), WriteLines(&lines, s)); err != nil {
		t.Fatal(err)
	}
	if got := read(t, pickle.Bytes()); !reflect.DeepEqual(got, s) {
		t.Errorf("pickle: got %+v\nwant %+v", got.Settings, s.Settings)
	}
	if got := read(t, lines.Bytes()); !reflect.DeepEqual(got.Traces, s.Traces) {
		t.Error("JSON lines: events differ")
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(pickle.Bytes())
	z.Close()
	if got := read(t, zipped.Bytes()); !reflect.DeepEqual(got, s) {
		t.Error("gzipped pickle differs")
	}
}

// Every protocol that Python writes is read, and what we write Python reads.
func TestPythonsPickle(t *testing.T) {
	for _, python := range env.CPythons(t) {
		t.Run(python.Name(), func(t *testing.T) {
			dir := t.TempDir()
			ours := filepath.Join(dir, "ours.pickle")
			s := file(t, mosaic)
			f, err := os.Create(ours)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(WritePickle(f, s), f.Close()); err != nil {
				t.Fatal(err)
			}
			script := `
import pickle, sys
d, ours, theirs = sys.argv[1:]
a, b = pickle.load(open(theirs, 'rb')), pickle.load(open(ours, 'rb'))
for s in a['segments']: s['segment_pool_id'] = tuple(s['segment_pool_id'])  # as PyTorch has it
assert a['segments'] == b['segments'], 'segments'
assert len(a['device_traces'][0]) == len(b['device_traces'][0])
for x, y in zip(a['device_traces'][0], b['device_traces'][0]):
    x['user_metadata'] = y['user_metadata']
    assert x == y, (x, y)
assert a['external_annotations'] == b['external_annotations']
b['big'], b['float'], b['bytes'], b['set_later'] = 1 << 63, 1.5, b'xyz', (1, 2, 3, 4, ())
b['segments'][0]['address'] = (1 << 64) - 512
b['segments'] = tuple(b['segments'])
for p in range(2, pickle.HIGHEST_PROTOCOL + 1):
    if p == 2: b['bytes'] = None  # protocol 2 has no bytes and calls _codecs.encode
    else: b['bytes'] = b'xyz'
    pickle.dump(b, open('%s/%d.pickle' % (d, p), 'wb'), protocol=p)
    pickle._dump(b, open('%s/%d.slow.pickle' % (d, p), 'wb'), protocol=p)
`
			if out, err := python.Command(t, "-c", script, dir, ours, mosaic).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			s.Segments[0].Address = 1<<64 - 512
			made, _ := filepath.Glob(filepath.Join(dir, "[2-5]*.pickle"))
			if len(made) < 8 {
				t.Errorf("Python wrote only %v", made)
			}
			for _, path := range made {
				if got := file(t, path); !reflect.DeepEqual(got, s) {
					t.Errorf("%s: differs", path)
				}
			}
		})
	}
}

// PyTorch's own viewer works on what we write.
func TestTorchViewer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ours.pickle")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	frames := []Frame{{"train.py", 12, "step"}, {"train.py", 40, "main"}}
	s := &Snapshot{
		Segments: []Segment{{Address: 1 << 30, Size: 2 << 20, Allocated: 1024, Active: 1024, Requested: 1000,
			Kind: "small", Blocks: []Block{{1 << 30, 1024, 1000, Allocated, frames},
				{1<<30 + 1024, 2<<20 - 1024, 2<<20 - 1024, Inactive, nil}}}},
		Traces: [][]Event{{{Action: SegmentAlloc, Addr: 1 << 30, Size: 2 << 20, Time: 1, Frames: frames},
			{Action: Alloc, Addr: 1 << 30, Size: 1000, Time: 2, Frames: frames}, {Action: Alloc, Addr: 1<<30 + 1024,
				Size: 512, Time: 3},
			{Action: FreeRequested, Addr: 1<<30 + 1024, Size: 512, Time: 4}, {Action: FreeCompleted, Addr: 1<<30 + 1024,
				Size: 512, Time: 5},
			{Action: OOM, Size: 1 << 40, DeviceFree: 1 << 20, Time: 6}}},
	}
	if err := errors.Join(s.Check(), WritePickle(f, s), f.Close()); err != nil {
		t.Fatal(err)
	}
	script := `
import pickle, sys
from torch.cuda import _memory_viz as v
d = pickle.load(open(sys.argv[1], 'rb'))
lines = lambda text: text  # instead of a flame graph, for which it would download a script
for text in (v.segsum(d), v.trace(d), v.segments(d, lines), v.memory(d, lines)):
    assert len(text) > 60, text
for f in (v.trace_plot, v.segment_plot):
    assert len(f(d, 0) if f is v.trace_plot else f(d)) > 1000, f
`
	cmd := env.Torch(t).Command(t, "-c", script, path)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestOlderTorch(t *testing.T) {
	// torch 1.13: torch.cuda.memory_snapshot(), blocks with a history and without addresses
	out,
		err := pythonPickle(`[{'device': 1, 'address': 4096, 'total_size': 2048, 'allocated_size': 512, 'active_size': 1024, 'stream': 0, 'segment_type': 'small',
 'blocks': [{'size': 512, 'state': 'active_allocated', 'history': [{'addr': 4096, 'real_size': 500, 'frames': [{'name': 'f', 'filename': 'a.py', 'line': 3}]}]},
            {'size': 512, 'state': 'active_awaiting_free'}, {'size': 1024, 'state': 'inactive'}]}]`)
	if err != nil {
		env.Missing(t, "python3", err)
	}
	s := read(t, out)
	blocks := s.Segments[0].Blocks
	want := []Block{{4096, 512, 500, Allocated, []Frame{{"a.py", 3, "f"}}}, {4608, 512, 512, PendingFree, nil},
		{5120, 1024, 1024, Inactive, nil}}
	if !reflect.DeepEqual(blocks, want) {
		t.Errorf("got %+v", blocks)
	}
	if s.Check() != nil || s.Reserved(1) != 2048 || fmt.Sprint(s.Devices()) != "[1]" {
		t.Errorf("check %v, reserved %d, devices %v", s.Check(), s.Reserved(1), s.Devices())
	}
	s.Segments[0].Blocks[2].Address++
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "block 2") {
		t.Errorf("a hole between blocks gives %v", err)
	}
}

func pythonPickle(expr string) ([]byte, error) {
	return exec.Command("python3", "-c", "import pickle, sys; sys.stdout.buffer.write(pickle.dumps("+expr+"))").Output()
}

func TestTraceText(t *testing.T) {
	text := "# a comment\ndevice 0\nreserved_at_start 4194304\nreserved_at_end 2097152\nlive 0x1000 600\n" +
		"segment_free 0x200000 2097152 0\nalloc 0x2000 512 0\nsegment_alloc 0x400000 2097152 0\nfree 0x1000 600 0\nsegment_free 0x400000 2097152 0\n"
	s := read(t, []byte(text))
	tr, err := s.Trace(0)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(tr.Live, []LiveBlock{{0x1000, 600, 0}}) || tr.Reserved != 4194304 || tr.Events.Len() != 5 {
		t.Errorf("opening %+v, %d events", tr.Opening, tr.Events.Len())
	}
	if *tr.Recorded != (Recorded{Peak: 4194304, End: 2097152, SegmentOps: 2}) {
		t.Errorf("recorded %+v", *tr.Recorded)
	}
	var again bytes.Buffer
	if err := WriteTrace(&again, tr); err != nil {
		t.Fatal(err)
	}
	if got, err := read(t, again.Bytes()).Trace(0); err != nil || !reflect.DeepEqual(got, tr) {
		t.Errorf("written and read again: %+v, %v", got, err)
	}
}

// What was there at first follows from the segments at the end and the events.
func TestOpeningFromTheEnd(t *testing.T) {
	s := &Snapshot{
		Segments: []Segment{{Address: 0x10000, Size: 4096, Blocks: []Block{
			{Address: 0x10000, Size: 1024, Requested: 1000, State: Allocated}, // since ever
			{Address: 0x10400, Size: 1024, Requested: 1020, State: Allocated}, // since event 1
			{Address: 0x10800, Size: 2048, State: Inactive}}}},
		Traces: [][]Event{{
			{Action: SegmentFree, Addr: 0x90000, Size: 8192},
			{Action: Alloc, Addr: 0x10400, Size: 1020},
			{Action: FreeCompleted, Addr: 0x10800, Size: 2000},
			{Action: SegmentAlloc, Addr: 0x20000, Size: 512},
			{Action: SegmentFree, Addr: 0x20000, Size: 512}}},
	}
	tr, err := s.Trace(0)
	if err != nil {
		t.Fatal(err)
	}
	want := Opening{Reserved: 12288, Live: []LiveBlock{{0x10000, 1000, 0}, {0x10800, 2000, 0}},
		Segments: []Span{{0x10000, 4096, 0}, {0x90000, 8192, 0}}}
	if !reflect.DeepEqual(tr.Opening, want) {
		t.Errorf("got %+v", tr.Opening)
	}
	if *tr.Recorded != (Recorded{Peak: 4608, End: 4096, SegmentOps: 2}) {
		t.Errorf("recorded %+v", *tr.Recorded)
	}
	if _, err := s.Trace(3); err == nil || !strings.Contains(err.Error(), "no history") {
		t.Errorf("device 3: %v", err)
	}
}

func TestRMM(t *testing.T) {
	text := "Thread,Time,Action,Pointer,Size,Stream\n12,23:59:59.999999,allocate,0x7f0000000200,1000,0x0\n" +
		"12,00:00:00.000002,allocate failure,(nil),5000000,0x2\n13,00:00:01:000000,free,0x7f0000000200,1000,0x0\n"
	s := read(t, []byte(text))
	want := []Event{
		{Action: Alloc, Addr: 0x7f0000000200, Size: 1000, Time: 86399999999, Thread: 12},
		{Action: OOM, Size: 5000000, Stream: 2, Time: 86400000002, Thread: 12},
		{Action: FreeCompleted, Addr: 0x7f0000000200, Size: 1000, Time: 86401000000, Thread: 13}}
	if !reflect.DeepEqual(s.Traces[0], want) {
		t.Errorf("got %+v", s.Traces[0])
	}
	var out bytes.Buffer
	if err := WriteRMM(&out, s, 0); err != nil {
		t.Fatal(err)
	}
	if got := read(t, out.Bytes()); !reflect.DeepEqual(got.Traces[0], want) {
		t.Errorf("written and read again: %+v", got.Traces[0])
	}
}

func TestBadFiles(t *testing.T) {
	whole, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	evil := []byte("\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.")
	for _, c := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "file is empty at byte 0"},
		{"text", []byte("hello world"), "neither a PyTorch memory snapshot"},
		{"code", evil, "wants to run code (GLOBAL), which a memory snapshot has no need of; refused at byte 2"},
		{"cut", whole[:5000], "pickle is cut short"},
		{"protocol 9", []byte("\x80\x09N."), "not a pickle of protocol 2 to 5"},
		{"None", []byte("\x80\x02N."), "not a memory snapshot"},
		{"odd keys", []byte("\x80\x02}(X\x08\x00\x00\x00segments]NK\x01u."), "keys that are not text"},
		{"another dict", []byte("\x80\x02}."), "neither segments nor device_traces"},
		{"huge string", []byte("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff"), "text of 18446744073709551615 bytes"},
		{"no mark", []byte("\x80\x02}u."), "mark that it has not set at byte 3"},
		{"cut gzip", []byte("\x1f\x8b\x08\x00\x00\x00\x00\x00"), "gzip"},
		{"trace word", []byte("device 0\nallok 1 2 3\n"), `unknown word "allok" at line 2`},
		{"trace size", []byte("alloc 0x10 -5 0\n"), `bad number "-5" at line 1`},
		{"rmm size", []byte("Thread,Time,Action,Pointer,Size,Stream\n1,2,allocate,0x1,x,0x0\n"),
			`bad size "x" at line 2`},
		{"json", []byte("{\"action\":\"alloc\"}\n{]"), "JSON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, _, err := Read(bytes.NewReader(c.data))
			if s != nil || err == nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// A megabyte that refers to the same lists over and over must not become a trillion rows.
func TestNoMultiplication(t *testing.T) {
	out,
		err := pythonPickle(`{'segments': [{'address': 1, 'total_size': 0, 'blocks': [{'size': 0, 'state': 'inactive'}] * 1000}] * 1000}`)
	if err != nil {
		env.Missing(t, "python3", err)
	}
	if _, _, err := Read(bytes.NewReader(out)); err == nil || !strings.Contains(err.Error(), "a row is in two lists") {
		t.Errorf("got %v", err)
	}
}

func FuzzRead(f *testing.F) {
	whole, err := os.ReadFile(mosaic)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole[:2000])
	f.Add([]byte("device 0\nlive 0x1000 600\nalloc 0x2000 512 0\n"))
	f.Add([]byte("Thread,Time,Action,Pointer,Size,Stream\n1,00:00:00.5,allocate,0x1,12,0x0\n"))
	f.Add([]byte("{\"action\":\"alloc\",\"size\":3}\n"))
	f.Add(
		[]byte("\x80\x02}X\x08\x00\x00\x00segments](}X\x06\x00\x00\x00blocks](}X\x05\x00\x00\x00stateX\x08\x00\x00\x00inactiveseses."))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, _, err := Read(bytes.NewReader(data))
		if (s == nil) == (err == nil) {
			t.Fatalf("snapshot %v and error %v", s, err)
		}
		if err != nil {
			return
		}
		for _, d := range s.Devices() {
			if tr, err := s.Trace(d); err == nil && tr.Events.Len() == 0 {
				t.Fatal("a trace without events")
			}
		}
		var out bytes.Buffer
		if err := WritePickle(&out, s); err != nil {
			t.Fatal(err)
		}
		if again, _, err := Read(&out); err != nil || len(again.Segments) != len(s.Segments) ||
			len(again.Traces) != len(s.Traces) {
			t.Fatalf("what was written is not read: %v", err)
		}
	})
}

func BenchmarkReadPickle(b *testing.B) {
	s, _, err := ReadFile(mosaic)
	if err != nil {
		b.Fatal(err)
	}
	for len(s.Traces[0]) < 100_000 {
		s.Traces[0] = append(s.Traces[0], s.Traces[0][:1040]...)
	}
	var out bytes.Buffer
	if err := WritePickle(&out, s); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(out.Len()))
	b.ReportMetric(float64(len(s.Traces[0])), "events")
	for b.Loop() {
		if _, _, err := Read(bytes.NewReader(out.Bytes())); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkWritePickle(b *testing.B) {
	s, _, err := ReadFile(mosaic)
	if err != nil {
		b.Fatal(err)
	}
	for len(s.Traces[0]) < 100_000 {
		s.Traces[0] = append(s.Traces[0], s.Traces[0][:1040]...)
	}
	for b.Loop() {
		var out bytes.Buffer
		if err := WritePickle(&out, s); err != nil {
			b.Fatal(err)
		}
	}
}
