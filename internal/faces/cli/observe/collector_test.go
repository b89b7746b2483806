package observe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
)

// TestCollectorLog: standard error in the background stays within its bound and has no secrets.
func TestCollectorLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "collector.log")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	log := (&commands{&app.App{Stderr: term.NewEdge(f)}}).collectorLog()
	for i := range 3000 {
		if _, err := fmt.Fprintf(log, "%d %s\n", i, strings.Repeat("word ", 100)); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprintln(log, "open it: password=hunter2hunter2 \x1b[2J")
	text, err := os.ReadFile(path)
	if err != nil || len(text) > 1<<20 || !strings.Contains(string(text), "\n2999 word") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	last := string(text[max(0, len(text)-60):])
	if strings.Contains(last, "hunter2") || strings.Contains(last, "\x1b[") {
		t.Errorf("the last line is %q", last)
	}
}
