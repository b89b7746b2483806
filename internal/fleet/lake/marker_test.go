package lake

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/fleet/frame"
)

const tenOClock = "steps/date=2026-01-01/hour=10"

// planted writes a file into a lake.
func planted(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

const countRows = "SELECT count(*) FROM python.steps"

// A marker of a generation that has no successor hides no row that comes after it.
func TestLastGeneration(t *testing.T) {
	for _, name := range []string{"9223372036854775807", "2147483649"} {
		dir := t.TempDir()
		planted(t, dir, tenOClock+"/_gen-"+name+".json", `{"generation":`+name+`,"rows":{}}`)
		w := writer(t, soon(dir))
		for k := range 2 { // the second comes to what the writer knows since the merge
			appended(t, w, batch(t, k, 0))
			if err := w.merge(t.Context(), hour{"steps", "", began.Truncate(time.Hour)}, &Report{}); err != nil {
				t.Error(err)
			}
		}
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(2*batchRows) {
			t.Errorf("generation %s: %s rows", name, got)
		}
		w.Close()
	}
	dir := t.TempDir() // the last itself: nothing of it is merged, and nothing lost
	last := fmt.Sprint(maxGeneration)
	planted(t, dir, tenOClock+"/_gen-"+last+".json", `{"generation":`+last+`,"rows":{}}`)
	w := writer(t, soon(dir))
	defer w.Close()
	appended(t, w, batch(t, 0, 0))
	if _, err := w.Maintain(t.Context()); err == nil || !strings.Contains(err.Error(), "is the last") {
		t.Error(err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
		t.Errorf("%s rows", got)
	}
}

// What a marker claims is checked as what a file's footer claims is: rows that nobody has are taken when they come.
func TestMarkerThatLies(t *testing.T) {
	for _, rows := range []string{`{"node-0/s1":[[10,5],[1,18446744073709551615]]}`,
		`{"node-0/s1":[[1,18446744073709551615]]}`, `{"node-0/s1":[[0,9000]]}`, `{"node-0/s1":[[1,9000]]}`,
		`{"node-0/s1":[[1,9],[5,9000]]}`, `{"node-0/s1' OR 1=1":[[1,9000]]}`} {
		dir := t.TempDir()
		planted(t, dir, tenOClock+"/_gen-1.json", `{"generation":1,"rows":`+rows+`}`)
		w := writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0))
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
			t.Errorf("%s: %s rows", rows, got)
		}
		if names, _ := w.Aside(); !strings.Contains(strings.Join(names, "\n"), "_gen-1.json") {
			t.Errorf("%s: not named: %q", rows, names)
		}
		w.Close()
	}
}

// A lake that was copied without its markers loses nothing to maintenance, whatever comes later; with the markers it is
// what it was.
func TestMarkersMissing(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	appended(t, w, batch(t, 0, 0))
	for range 2 { // the second removes what was replaced
		if _, err := w.Maintain(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	appended(t, w, batch(t, 1, 0)) // late, of generation 1
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(dir, tenOClock, "_gen-1.json")
	kept := filepath.Join(t.TempDir(), "kept")
	for _, name := range []string{"c1", "r1"} {
		list, err := filepath.Glob(filepath.Join(dir, tenOClock, "tier="+name, "*.parquet"))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		old := time.Now().Add(-time.Hour)
		if err := os.Chtimes(list[0], old, old); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(marker, kept); err != nil {
		t.Fatal(err)
	}
	w = writer(t, soon(dir))
	if r, err := w.Maintain(t.Context()); err != nil || r.Removed != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	names, _ := w.Aside()
	for _, name := range []string{"/tier=c1/all.parquet", "/tier=r1/"} {
		if !strings.Contains(strings.Join(names, "\n"), name) {
			t.Errorf("%s was not named: %q", name, names)
		}
	}
	appended(t, w, batch(t, 2, 0)) // rows that come meanwhile make no orphan of what lies there
	if r, err := w.Maintain(t.Context()); err == nil || r.Removed != 0 || r.Merged != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
		t.Errorf("%s rows of those that came", got)
	}
	if err := errors.Join(w.Close(), os.Rename(kept, marker)); err != nil {
		t.Fatal(err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(2*batchRows) {
		t.Errorf("with the marker: %s rows", got)
	}
}

// A merge that was cut short before its marker is done again.
func TestMergeCutShort(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	appended(t, w, batch(t, 0, 0))
	planted(t, dir, tenOClock+"/tier=c1/all.parquet", "cut short")
	if r, err := w.Maintain(t.Context()); err != nil || r.Removed != 1 || r.Merged != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
		t.Errorf("%s rows", got)
	}
}

// A job that engines would read as no value in a path is none: its rows would be nobody's.
func TestNoNames(t *testing.T) {
	for _, name := range []string{"NULL", "null", "Null", "__HIVE_DEFAULT_PARTITION__", "__hive_default_partition__"} {
		if frame.CheckName("job", name) == nil {
			t.Errorf("%s is a name", name)
		}
		if _, ok := parse("steps/job=" + name + "/date=2026-01-01/hour=10/tier=r0/x.parquet"); ok {
			t.Errorf("%s is a job's directory", name)
		}
	}
}
