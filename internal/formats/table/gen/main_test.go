package main

import (
	"bytes"
	"os"
	"testing"
)

// TestGeneratedFilesAreCurrent fails when a description was changed without `make generate`.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	const root = "../../../../"
	if got, err := os.ReadFile(root + "docs/tables.md"); err != nil || !bytes.Equal(got, document()) {
		t.Errorf("docs/tables.md is not what the descriptions give (error %v): run make generate", err)
	}
}
