package python

import (
	"bytes"
	"maps"
	"testing"
	"testing/fstest"
)

func TestReadLeavesCachesOut(t *testing.T) {
	got, err := Read(fstest.MapFS{
		"boot/sitecustomize.py":                          {Data: []byte("a")},
		"boot/__pycache__/sitecustomize.cpython-311.pyc": {Data: []byte("x")},
		"memgauge/__init__.py":                           {Data: []byte("b")},
	})
	want := map[string]string{"boot/sitecustomize.py": "a", "memgauge/__init__.py": "b"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestPacked: a program that is built with the tag packed carries the same files, in a third of the space.
func TestPacked(t *testing.T) {
	want, err := Sources()
	if err != nil || len(want) < 10 {
		t.Fatalf("%d sources, %v", len(want), err)
	}
	size := 0
	for _, text := range want {
		size += len(text)
	}
	packed, err := Pack(want)
	if err != nil || len(packed) > size/3 {
		t.Fatalf("%d bytes are packed into %d: %v", size, len(packed), err)
	}
	again, err := Pack(want)
	if err != nil || !bytes.Equal(again, packed) {
		t.Errorf("the same sources give other bytes (%v)", err)
	}
	if got, err := Unpack(packed); err != nil || !maps.Equal(got, want) {
		t.Errorf("unpacked %d of %d sources: %v", len(got), len(want), err)
	}
	if _, err := Unpack(packed[:len(packed)/2]); err == nil {
		t.Error("half of a file is unpacked without an error")
	}
}
