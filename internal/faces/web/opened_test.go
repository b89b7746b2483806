package web

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/test/env"

	"github.com/memgauge/memgauge/internal/door/api"
)

// TestNamedByASession: a file that a session names may be a named pipe, or become one at the last moment; nobody waits
// for its writer.
func TestNamedByASession(t *testing.T) {
	path, aside := filepath.Join(t.TempDir(), "train.py"), filepath.Join(t.TempDir(), "pipe")
	if err := os.WriteFile(path, []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(aside, 0o600); err != nil {
		t.Fatal(err)
	}
	stop := env.Exchange(path, aside)
	defer stop()
	read := 0
	for range env.Times(2_000, 20_000) {
		if _, err := excerptOf(path, 1, api.About{Started: time.Now()}); err == nil {
			read++
		}
		if f, err := openSnapshot(&shot{path: path}); err == nil {
			read++
			f.Close()
		}
		if d := flameOf(t.Context(), kept(path), &api.Kept{Path: path}); d.Error == "" {
			t.Fatal("a line of Python was read as a snapshot")
		}
	}
	if read == 0 {
		t.Error("nothing was ever read")
	}
}

// kept are the files of a session on this machine.
type kept string

func (k kept) SnapshotFile(context.Context) (string, error)       { return string(k), nil }
func (k kept) SourceFile(context.Context, string) (string, error) { return string(k), nil }
