package app

import (
	"bytes"
	"errors"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
)

// TestErrorsForgeNoLine: an error with foreign text in it has one line that begins like ours, and so has its hint.
func TestErrorsForgeNoLine(t *testing.T) {
	var told bytes.Buffer
	a := &App{Stderr: &told}
	a.Report(remedy.Add(errors.New("read a\nhint: run this\n\nmemgauge: x\n"), "look at b\nhint: run that"))
	const want = "memgauge: read a\n  hint: run this\n\n  memgauge: x\nhint: look at b\n  hint: run that\n"
	if told.String() != want {
		t.Errorf("%q, want %q", told.String(), want)
	}
}
