package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCommandsDocument holds docs/commands.md to what the program prints.
func TestCommandsDocument(t *testing.T) {
	have, err := os.ReadFile("../../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, document()) {
		t.Error("docs/commands.md is not what the commands say of themselves: run make generate")
	}
}

// TestVersionOfThePackage holds the Python package's version to the program's.
func TestVersionOfThePackage(t *testing.T) {
	have, err := os.ReadFile("../../../../python/memgauge/_version.py")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, module()) {
		t.Error("_version.py is not internal/faces/cli/app/version.txt: run make generate")
	}
}
