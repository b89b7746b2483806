package keeper

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/record/session"
)

const (
	itself   = "the program itself"
	loseFile = "MEMGAUGE_TEST_LOSE_FILE" // the session's directory
)

// spawnWithoutFile puts another program where this one's file was, as any user may in /tmp once the file is gone, and
// starts a collector.
func spawnWithoutFile(dir string) error {
	if err := os.Remove(os.Args[0]); err != nil {
		return err
	}
	if err := os.WriteFile(os.Args[0], []byte("#!/bin/sh\necho a stranger\n"), 0o700); err != nil {
		return err
	}
	cmd, err := SpawnCollector(&session.Session{Dir: dir})
	if err != nil {
		return err
	}
	return cmd.Wait()
}

// TestFileOfAStranger: a collector is this very program, whoever has put a file where its own was.
func TestFileOfAStranger(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), loseFile+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	log, err := os.ReadFile(filepath.Join(dir, "collector.log"))
	if err != nil || strings.TrimSpace(string(log)) != itself {
		t.Errorf("what has started says %q, %v", log, err)
	}
}
