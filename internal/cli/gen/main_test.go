package main

import (
	"bytes"
	"os"
	"testing"
)

// TestCommandsDocument holds docs/commands.md to what the program prints.
func TestCommandsDocument(t *testing.T) {
	have, err := os.ReadFile("../../../docs/commands.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, document()) {
		t.Error("docs/commands.md is not what the commands say of themselves: run make generate")
	}
}
