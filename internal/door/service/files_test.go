package service

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/record/session"
)

// TestFilesOfASession: the snapshot is where the session lies; a source file is where the program ran, which is not
// here if that was another host.
func TestFilesOfASession(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	j := Job{S: s}
	if path, err := j.SnapshotFile(t.Context()); err == nil || remedy.Of(err) == "" {
		t.Errorf("%q, %v", path, err)
	}
	for name, want := range map[string]string{"train.py": filepath.Join(s.Meta.Cwd, "train.py"),
		"/a/b.py": "/a/b.py"} {
		if path, err := j.SourceFile(t.Context(), name); err != nil || path != want {
			t.Errorf("%q, %v; want %s", path, err, want)
		}
	}
	s.Meta.Host = "elsewhere"
	if path, err := j.SourceFile(t.Context(), "train.py"); !errors.Is(err, api.ErrElsewhere) {
		t.Errorf("%q, %v", path, err)
	}
}

// TestSourceOfACopy: a copied session may name any file of this machine as its program's, so none is read for it.
func TestSourceOfACopy(t *testing.T) {
	t.Setenv("MEMGAUGE_HOME", t.TempDir())
	s, err := session.Create(session.Options{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := (Job{S: s}).SourceFile(t.Context(), "/x/train.py"); err != nil || got != "/x/train.py" {
		t.Errorf("in its place: %s, %v", got, err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(dir, os.DirFS(s.Dir)); err != nil {
		t.Fatal(err)
	}
	copied, err := session.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Job{S: copied}.SourceFile(t.Context(), "/x/train.py")
	if !errors.Is(err, api.ErrElsewhere) || got != "" || remedy.Of(err) == "" {
		t.Errorf("of a copy: %s, %v", got, err)
	}
}
