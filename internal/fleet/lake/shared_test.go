package lake

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/record/store"
)

// spoilt makes a file of rows of two nodes, one of which has texts that are none: DuckDB can't read it then.
func spoilt(t *testing.T, w *Writer) {
	t.Helper()
	device := frame.Field{Name: "device", Type: frame.Text}
	bad := framed(stranger(1, 2), []frame.Field{tsField, stepField, device}, func(name string, row int) any {
		switch name {
		case "ts":
			return began
		case "step":
			return int64(row)
		}
		return "\xc3\xa9"[row : row+1]
	})
	if err := w.AppendAll(t.Context(), []frame.Batch{batch(t, 0, 0), bad}); err != nil {
		t.Fatal(err)
	}
}

// TestQuestionLeavesBadFileOut: a file whose rows can't be read fails no question; it is left out, and the note says
// so.
func TestQuestionLeavesBadFileOut(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	spoilt(t, w)
	appended(t, w, batch(t, 1, 0))
	tables, err := Open(t.Context(), Choice{Location: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer tables.Close()
	for range 2 {
		var out bytes.Buffer
		var notes []string
		q := api.QueryRequest{SQL: "SELECT count(DISTINCT node), max(device) FROM python.steps " +
			"WHERE ts < '2026-01-01 11:00'", Format: "csv", Note: func(text string) { notes = append(notes, text) }}
		if err := tables.Query(t.Context(), q, &out); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fmt.Sprint(notes), "left out") || !strings.Contains(out.String(), "\n1,") {
			t.Errorf("%s, notes %q", &out, notes)
		}
	}
}

// TestRowsOfOthersStay: a merge that sets a file of several nodes aside loses no row of any: only the column that can't
// be read is empty.
func TestRowsOfOthersStay(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	spoilt(t, w)
	if _, err := w.Maintain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names, _ := w.Aside(); len(names) != 1 {
		t.Errorf("set aside: %q", names)
	}
	const all = "SELECT count(*), count(DISTINCT node), count(step), count(allocated), count(device) FROM python.steps"
	want := fmt.Sprintf("%d,2,%d,%d,0", batchRows+2, batchRows+2, batchRows)
	if got := csv(t, Choice{Location: dir}, all); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	// they are known as before
	spoilt(t, w)
	if stored, again := w.Counts(); stored != batchRows+2 || again != batchRows+2 {
		t.Errorf("%d stored, %d came again", stored, again)
	}
}

// TestRemains: where a file takes too much, each node's rows are tried by themselves; one node's are its own.
func TestRemains(t *testing.T) {
	two := ledger{"n1/s": ranges{{1, 2}}, "n2/s": ranges{{5, 6}}, "n2/t": ranges{{1, 1}}}
	if got := remainsOf(two, errBeyond); len(got) != 2 || len(got[0].rows)+len(got[1].rows) != 3 || got[0].where == "" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []error{badFile{store.ErrBadFile, nil}, badFile{store.ErrBadFile, []string{"node"}}} {
		if got := remainsOf(two, bad); len(got) != 0 {
			t.Errorf("%v: %+v", bad, got)
		}
	}
	if got := remainsOf(ledger{"n1/s": ranges{{1, 2}}}, errBeyond); len(got) != 0 {
		t.Errorf("of one node: %+v", got)
	}
}
