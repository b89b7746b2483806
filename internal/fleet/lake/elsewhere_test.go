package lake

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Lakes that somebody else has prepared: what lies in them beside the rows hides none of them.

// TestMarkerWithoutMerged: a marker whose merged file is missing hides no row from those who ask, and lets none in
// twice; where it can be read, the hour is merged again.
func TestMarkerWithoutMerged(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":       "x",
		"deep":          `{"generation":1,"rows":` + strings.Repeat("[", 1<<20),
		"another's":     `{"generation":1,"rows":{"node-9/s1":[[1,100]]}}`,
		"its own":       fmt.Sprintf(`{"generation":1,"rows":{"node-0/s1":[[1,%d]]}}`, batchRows),
		"without rows":  `{"generation":1,"rows":{}}`,
		"a later one":   `{"generation":2147483648,"rows":{"node-0/s1":[[1,1]]}}`,
		"names of SQL":  `{"generation":1,"rows":{"n'; DROP/s1":[[1,100]]}}`,
		"no generation": `{}`,
	} {
		dir := t.TempDir()
		w := writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0))
		w.Close()
		marker := "/_gen-1.json"
		if name == "a later one" {
			marker = "/_gen-2147483648.json"
		}
		planted(t, dir, tenOClock+marker, text)
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
			t.Errorf("%s: %s rows", name, got)
		}
		w = writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0)) // again
		appended(t, w, batch(t, 1, 0))
		if _, err := w.Maintain(t.Context()); err != nil {
			t.Logf("%s: %v", name, err) // an hour of which nothing is known for sure is left alone
		}
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(2*batchRows) {
			t.Errorf("%s: %s rows after a merge", name, got)
		}
		w.Close()
	}
}

// TestDirectoriesOfOthers: directories that are nested without end, or have names that are none of a lake's, fail no
// question and no merge.
func TestDirectoriesOfOthers(t *testing.T) {
	dir, w := filled(t)
	at := filepath.Join(dir, filepath.FromSlash(tenOClock), "tier=r0")
	top, err := unix.Open(at, unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 40 { // 8,000 bytes of names: more than a path may have
		name := strings.Repeat("d", 200)
		if err := unix.Mkdirat(top, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(top, name, unix.O_DIRECTORY, 0)
		unix.Close(top)
		if err != nil {
			t.Fatal(err)
		}
		top = next
	}
	unix.Close(top)
	for _, name := range []string{"date=..", "date=2026-01-01%2f..", "date=2026-01-01\n", "hour=10", "date=\xff",
		"job=\x1b[31m", "date=" + strings.Repeat("9", 200)} {
		if err := os.MkdirAll(filepath.Join(dir, "steps", name, "hour=10", "tier=r0", "x.parquet"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(at, "pipe.parquet"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := csv(t, Choice{Location: dir}, countRows)
	if got := csv(t, Choice{Location: dir, Job: "llama"}, countRows); got != rows || rows == "0" {
		t.Errorf("%s rows, of the job %s", rows, got)
	}
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != rows {
		t.Errorf("%s of %s rows after the merge", got, rows)
	}
}

// TestListsOfOthers: a list with names that no job has is none: it hides no job, and its names are told to nobody.
func TestListsOfOthers(t *testing.T) {
	for what, name := range map[string]string{"escapes": "\x1b[31mred\n", "a path": "../x",
		"long": strings.Repeat("a", 100_000)} {
		dir, w := filled(t)
		rows := csv(t, Choice{Location: dir}, countRows)
		text, err := json.Marshal(day{Jobs: map[string]uint32{name: 1024}})
		if err != nil {
			t.Fatal(err)
		}
		planted(t, dir, listsDir+began.Format(time.DateOnly)+".json", string(text))
		if got := csv(t, Choice{Location: dir, Job: "llama"}, countRows); got != rows {
			t.Errorf("%s: %s of %s rows", what, got, rows)
		}
		if names, open, err := jobsOf(t.Context(), w.place); err != nil || !open || len(names) > 0 {
			t.Errorf("%s: jobs %.200q, %v, %v", what, names, open, err)
		}
	}
}

// TestNamesInFilesOfOthers: a file whose types have names that steer a terminal, break lines or have any length is left
// out as others are, and what is said of it is one line.
func TestNamesInFilesOfOthers(t *testing.T) {
	dir, w := filled(t)
	rows := csv(t, Choice{Location: dir}, countRows)
	for what, name := range map[string]string{"escapes": "\n\x1b[31mmemgauge: all is well",
		"long": strings.Repeat("x", 1<<20)} {
		file := filepath.Join(t.TempDir(), "x.parquet")
		sql := fmt.Sprintf(`SELECT {"%s": 1} AS step, 'x' AS job`, name)
		if err := store.WriteParquet(t.Context(), sql, file, 100, t.TempDir()); err != nil {
			t.Fatal(what, err)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		planted(t, dir, tenOClock+"/tier=r0/"+what+".parquet", string(text))
	}
	tables, err := Open(t.Context(), Choice{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	var out bytes.Buffer
	notes := ""
	q := api.QueryRequest{SQL: countRows, Format: "csv", Note: func(text string) { notes += text }}
	if err := tables.Query(t.Context(), q, &out); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), rows) || strings.ContainsFunc(notes, plain.Steers) || len(notes) > 4096 ||
		!strings.Contains(notes, "escapes.parquet") || !strings.Contains(notes, "long.parquet") {
		t.Errorf("%q of %s rows, notes %.5000q", &out, rows, notes)
	}
	if _, err := w.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := csv(t, Choice{Location: dir}, countRows); got != rows {
		t.Errorf("%s of %s rows after the merge", got, rows)
	}
}
