package main

import (
	"bytes"
	"go/format"
	"os"
	"testing"
)

// TestGeneratedFilesAreCurrent fails when the spec was changed without `go generate ./internal/formats/wire`.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	src, err := format.Source(goCodec())
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{
		"../codec_gen.go": src,
		"../../../../python/memgauge/_agent/record/_spec.py": pySpec(),
		"../../../../docs/formats/ring-fields.md":            tables(),
	} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the spec gives (error %v): run go generate ./internal/formats/wire", path, err)
		}
	}
}
