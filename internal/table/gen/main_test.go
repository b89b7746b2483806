package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGeneratedFilesAreCurrent fails when a description was changed without `make generate`.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	const root = "../../../"
	files := map[string][]byte{"docs/tables.md": document()}
	for _, path := range []string{"README.md", "README.zh-CN.md"} {
		text, err := os.ReadFile(root + path)
		if err != nil {
			t.Fatal(err)
		}
		if files[path], err = readme(text); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range files {
		if got, err := os.ReadFile(root + path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the descriptions give (error %v): run make generate", path, err)
		}
	}
}
