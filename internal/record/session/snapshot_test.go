package session

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/test/env"
)

func TestOneSnapshotIsKept(t *testing.T) {
	s := &Session{Dir: t.TempDir()}
	if kept, ok := s.Snapshot(); ok {
		t.Errorf("found %+v in an empty session", kept)
	}
	dir := env.Must[*rootdir.Dir](t)(rootdir.Open(s.Dir))
	defer dir.Close()
	for _, pid := range []int{7, 8, 8} {
		file := filepath.Join(s.Dir, "new")
		if err := os.WriteFile(file, []byte{byte(pid)}, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.KeepSnapshot(pid, dir, "new"); err != nil {
			t.Fatal(err)
		}
		kept, ok := s.Snapshot()
		if !ok || kept.PID != pid || kept.Taken.IsZero() {
			t.Fatalf("kept %+v, want that of %d", kept, pid)
		}
		if text, err := os.ReadFile(kept.Path); err != nil || text[0] != byte(pid) {
			t.Errorf("%s: %v %v", kept.Path, text, err)
		}
		if all, _ := os.ReadDir(s.Dir); len(all) != 1 {
			t.Errorf("the session has %v", all)
		}
	}
	if err := s.KeepSnapshot(9, dir, "none"); err == nil {
		t.Error("a file that is not there was kept")
	}
	if kept, _ := s.Snapshot(); kept.PID != 8 {
		t.Errorf("a failure to keep one took the one before: %+v", kept)
	}
}
