package snapshot

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// rare has what columns don't keep: keys of their own, a block's history, a line that C++ counts below 0, bytes.
const rare = `
import pickle, sys
frame = {'name': 'f', 'filename': 'a.py', 'line': 2**64 - 1, 'fx_node': 'mm'}
block = {'size': 512, 'state': 'active_allocated', 'history': [{'real_size': 100, 'addr': 4096, 'frames': [frame]},
         {'real_size': 50, 'addr': 4096, 'frames': []}]}
snapshot = {'segments': [{'device': 0, 'address': 4096, 'total_size': 512, 'allocated_size': 512, 'active_size': 512,
            'stream': 0, 'segment_type': 'small', 'blocks': [block]}],
            'device_traces': [[{'action': 'alloc', 'addr': 4096, 'size': 100, 'stream': 0, 'frames': [frame]}]],
            'note': ('any', 1.5, None, {'a': b'bytes'}, 2**63)}
pickle.dump(snapshot, open(sys.argv[1], 'wb'), protocol=5)
`

// What is exported for old viewers says what the file says: the values that Python loads are equal.
func TestProtocol4IsEqual(t *testing.T) {
	pythons := env.CPythons(t)
	python := pythons[len(pythons)-1]
	dir := t.TempDir()
	made := filepath.Join(dir, "rare.pickle")
	if out, err := python.Command(t, "-c", rare, made).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	paths, err := filepath.Glob(filepath.Join(env.Checkout(), "testdata", "snapshots", "*.pickle*"))
	if err != nil || len(paths) < 3 {
		t.Fatalf("snapshots: %v, %v", paths, err)
	}
	for _, path := range append(paths, made) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		written := filepath.Join(dir, "written.pickle")
		f, err := os.Create(written)
		if err != nil {
			t.Fatal(err)
		}
		again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
		if err := WriteProtocol4(context.Background(), f, columns(t, data), again); err != nil {
			t.Fatal(err)
		}
		f.Close()
		const compare = `
import gzip, pickle, sys
a, b = sys.argv[1:]
a = (gzip.open(a) if a.endswith('.gz') else open(a, 'rb')).read()
b = open(b, 'rb').read()
assert b[:2] == b'\x80\x04', b[:2]
assert pickle.loads(a) == pickle.loads(b)
`
		if out, err := python.Command(t, "-c", compare, path, written).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", path, err, out)
		}
	}
}

// A file that changes while it is exported, and a value that protocol 4 can't say, are errors.
func TestProtocol4Fails(t *testing.T) {
	data, err := os.ReadFile(mosaic)
	if err != nil {
		t.Fatal(err)
	}
	c := columns(t, data)
	for name, half := range map[string][]byte{"shorter": data[:len(data)/2], "empty": nil, "another": []byte("{}")} {
		again := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(half)), nil }
		if err := WriteProtocol4(context.Background(), io.Discard, c, again); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	odd := columns(t, []byte("\x80\x05}(\x8c\x01x\x96\x01\x00\x00\x00\x00\x00\x00\x00a\x8c\x08segments]u."))
	if err := WriteProtocol4(context.Background(), io.Discard, odd, nil); err == nil {
		t.Error("a bytearray: no error")
	}
}
