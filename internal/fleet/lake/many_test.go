package lake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// TestManyFiles: an hour that has many files is merged before it is over, in portions, whatever is wrong with one of
// them, and each row is there once.
func TestManyFiles(t *testing.T) {
	oldSources, oldRaw := maxSources, maxRaw
	t.Cleanup(func() { maxSources, maxRaw = oldSources, oldRaw })
	maxSources, maxRaw = 3, 4
	dir := t.TempDir()
	o := soon(dir)
	o.Grace = 100 * 365 * 24 * time.Hour // no hour is over
	w := writer(t, o)
	t.Cleanup(func() { w.Close() })
	send := func(from, to int) {
		for k := from; k < to; k++ {
			appended(t, w, batch(t, 0, k))
		}
	}
	send(0, 2)
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 0 {
		t.Errorf("few files: %+v, %v", r, err)
	}
	send(2, 24)
	raw, most := "", 0
	hours, err := filepath.Glob(filepath.Join(dir, "steps", "*", "*", "tier=r0"))
	for _, at := range hours {
		if files, _ := os.ReadDir(at); len(files) > most {
			raw, most = at, len(files)
		}
	}
	if err != nil || most < maxRaw {
		t.Fatalf("%v: at most %d files, %v", hours, most, err)
	}
	bad := filepath.Join(raw, "bad.parquet")
	if err := os.WriteFile(bad, []byte("PAR1 and nothing else PAR1"), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged == 0 || r.Files < 16 {
		t.Errorf("many files: %+v, %v", r, err)
	}
	if names, _ := w.Aside(); !strings.Contains(strings.Join(names, "\n"), "bad.parquet") {
		t.Errorf("the damaged one is not named: %q", names)
	}
	send(24, 26)
	send(3, 5) // again
	const rows = "SELECT count(*) || '/' || count(DISTINCT step) FROM python.steps"
	if got, want := csv(t, Choice{Location: dir}, rows), fmt.Sprintf("%d/%[1]d", 26*batchRows); got != want {
		t.Errorf("%s rows, want %s", got, want)
	}
	old := maxFiles
	t.Cleanup(func() { maxFiles = old })
	maxFiles = 2
	if _, err := Open(t.Context(), Choice{Location: dir}); !errors.Is(err, ErrTooMuch) || remedy.Of(err) == "" {
		t.Errorf("more files than a question may read: %v, hint %q", err, remedy.Of(err))
	}
	if left, err := os.ReadDir(filepath.Join(dir, stageName)); err != nil || len(left) > 0 {
		t.Errorf("left in the stage: %v, %v", left, err)
	}
}

// TestMuchJunk: tens of thousands of files that are none of the lake's are set aside in one maintenance, told by number
// and the newest by name, and the hour is merged without them.
func TestMuchJunk(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	t.Cleanup(func() { w.Close() })
	appended(t, w, batch(t, 0, 0))
	hours, err := filepath.Glob(filepath.Join(dir, "steps", "*", "*", "tier=r0"))
	if err != nil || len(hours) == 0 {
		t.Fatalf("%v, %v", hours, err)
	}
	junk := env.Times(300, 30_000)
	for i := range junk {
		name := filepath.Join(hours[0], fmt.Sprintf("junk-%d.parquet", i))
		if err := os.WriteFile(name, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := w.Maintain(t.Context())
	if err != nil || r.Merged != len(hours) {
		t.Errorf("%+v, %v", r, err)
	}
	if names, more := w.Aside(); len(names) != maxNotes || len(names)+more != junk {
		t.Errorf("%d are told, of %d", len(names)+more, junk)
	}
	moved, err := os.ReadDir(strings.Replace(hours[0], dir, filepath.Join(dir, asideName), 1))
	if err != nil || len(moved) != junk {
		t.Errorf("%d are aside, %v", len(moved), err)
	}
}
