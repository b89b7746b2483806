// Package python is memgauge's Python: the package memgauge with the agent that runs in trainings (memgauge/_agent),
// and boot/sitecustomize.py, which starts it. Package agent brings it into processes, scripts/pack makes a wheel of it.
//
// A program carries these sources as they lie here, or, when built with the tag packed, as one compressed file: half a
// megabyte less of what people download. scripts/sources writes that file.
package python

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"

	"github.com/klauspost/compress/zstd"
)

// maxBytes is the most that Unpack gives: twenty times what the sources are.
const maxBytes = 16 << 20

// Read returns the sources in a tree, by path. It takes *.py alone: caches may lie beside them where a test has run.
func Read(tree fs.FS) (map[string]string, error) {
	files := map[string]string{}
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".py" {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return fmt.Errorf("read Python source %s: %w", name, err)
		}
		files[name] = string(data)
		return nil
	})
	return files, err
}

// Pack makes one file of sources: a JSON object (path: text), compressed with Zstandard. The same sources give the same
// bytes.
func Pack(files map[string]string) ([]byte, error) {
	text, err := json.Marshal(files) // keys are sorted
	if err != nil {
		return nil, fmt.Errorf("pack Python sources: %w", err)
	}
	w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("pack Python sources: %w", err)
	}
	return w.EncodeAll(text, nil), nil
}

// Unpack returns the sources that Pack was given.
func Unpack(packed []byte) (map[string]string, error) {
	r, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxBytes), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, fmt.Errorf("unpack Python sources: %w", err)
	}
	defer r.Close()
	text, err := r.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack Python sources: %w", err)
	}
	var files map[string]string
	if err := json.Unmarshal(text, &files); err != nil {
		return nil, fmt.Errorf("unpack Python sources: %w", err)
	}
	return files, nil
}
