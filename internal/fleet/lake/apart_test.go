package lake

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/record/store"
)

// elements is a Parquet file whose footer claims to describe so many columns: of each a reader makes some 300 bytes.
func elements(n uint64) []byte {
	footer := binary.AppendUvarint([]byte{0x15, 2, 0x19, 0xfc}, n) // version 2, a list of structs (thrift, compact)
	text := append([]byte("PAR1"), footer...)
	return append(binary.LittleEndian.AppendUint32(text, uint32(len(footer))), "PAR1"...)
}

// schemaOf is a file with nothing but a schema of so many groups; each has so many children.
func schemaOf(groups int, children byte) []byte {
	footer := binary.AppendUvarint([]byte{0x15, 2, 0x19, 0xfc}, uint64(groups)+1)
	for i := range groups + 1 {
		n := uint64(children) * 2 // zigzag
		if i == 0 && children == 0 {
			n = uint64(groups) * 2
		}
		footer = append(footer, 0x48, 1, 'c', 0x15) // field 4, its name; then field 5
		footer = append(binary.AppendUvarint(footer, n), 0)
	}
	footer = append(footer, 0x16, 0, 0x19, 0x0c, 0) // no rows, no row groups
	text := append([]byte("PAR1"), footer...)
	return append(binary.LittleEndian.AppendUint32(text, uint32(len(footer))), "PAR1"...)
}

// repeated writes a file whose rows all have one long text: it lies there once, and whoever sorts the rows copies it.
func repeated(t *testing.T, path string, length, rows int) {
	t.Helper()
	sql := fmt.Sprintf("SELECT repeat('N', %d) AS node FROM range(%d)", length, rows)
	if err := store.WriteParquet(t.Context(), sql, path, rows, t.TempDir()); err != nil {
		t.Fatal(err)
	}
}

// Files that ask for more memory than there should be, whatever they hold, take it from a process that is bounded and
// apart: the writer goes on, they are set aside and named, and the rows beside them are merged.
func TestFilesThatAskForTooMuch(t *testing.T) {
	for name, plant := range map[string]func(path string){
		"footer": func(path string) {
			if err := os.WriteFile(path, elements(12_000_000), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"text": func(path string) { repeated(t, path, 1<<20, 4096) },
	} {
		dir := t.TempDir()
		planted(t, dir, tenOClock+"/_gen-1.json", `{"generation":1,"rows":{}}`)
		w := writer(t, soon(dir))
		appended(t, w, batch(t, 0, 0))
		bad := filepath.Join(dir, filepath.FromSlash(tenOClock), "tier=c1", mergedName)
		if err := os.MkdirAll(filepath.Dir(bad), 0o700); err != nil {
			t.Fatal(err)
		}
		plant(bad)
		if name == "footer" { // before a merge, a question leaves it out and says so
			told(t, dir, map[string][]byte{"all": nil})
		}
		if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 1 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		if names, _ := w.Aside(); !strings.Contains(strings.Join(names, "\n"), "tier=c1/"+mergedName) {
			t.Errorf("%s: not named: %q", name, names)
		}
		if got := csv(t, Choice{Location: dir}, countRows); got != fmt.Sprint(batchRows) {
			t.Errorf("%s: %s rows", name, got)
		}
		if left, err := os.ReadDir(filepath.Join(dir, stageName)); err != nil || len(left) > 0 {
			t.Errorf("%s: left in the stage: %v, %v", name, left, err)
		}
		w.Close()
	}
}

// mergeOf is a merge of the lake's steps, and one of its files.
func mergeOf(t *testing.T, dir string, w *Writer) (store.Merge, *os.File) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(tenOClock), "tier=r0/*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	own, err := os.Open(files[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { own.Close() })
	h := hour{table: "steps"}
	return store.Merge{Columns: fileColumns(h), Order: sortedBy(h), RowGroup: rowGroup, MemoryLimit: w.o.Memory}, own
}

// The process that merges reads the files that it was given, and no other.
func TestMergeReadsItsFiles(t *testing.T) {
	dir, w := filled(t)
	secret := filepath.Join(t.TempDir(), "secret.parquet")
	if err := store.WriteParquet(t.Context(), "SELECT 'x' AS node", secret, 100, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	m, own := mergeOf(t, dir, w)
	inside := []source{{file: own}}
	if err := w.mergeApart(t.Context(), m, inside); err != nil {
		t.Error(err)
	}
	inside[0].where = "EXISTS (FROM read_parquet('" + secret + "'))"
	if err := w.mergeApart(t.Context(), m, inside); err == nil || !strings.Contains(err.Error(), "Permission denied") {
		t.Errorf("another file: %v", err)
	}
}

// A footer takes memory as it has bytes, whatever it claims: the writer reads it itself.
func TestFootersThatClaim(t *testing.T) {
	nested := append([]byte("PAR1\x15\x02"), strings.Repeat("\x1c", 1<<20)...)
	nested = append(binary.LittleEndian.AppendUint32(nested, 1<<20+2), "PAR1"...)
	for name, text := range map[string][]byte{"claims": elements(90_000_000), "more": elements(1<<31 - 1),
		"nested": nested, "deep": schemaOf(100_000, 1), "wide": schemaOf(300_000, 0)} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = rowsOf(name, f)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, errBad) {
			t.Errorf("%s: %v", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
			t.Errorf("%s: %d bytes were taken", name, took)
		}
		f.Close()
	}
}

func FuzzFooter(f *testing.F) {
	f.Add(elements(3)[4:])
	f.Add([]byte("\x15\x02\x59\x1c\x18\x0dmemgauge.rows\x18\x02{}\x00\x00"))
	f.Fuzz(func(_ *testing.T, footer []byte) { _, _ = metaIn(footer) })
}

// A merge that would take for ever ends with its context, and leaves nothing.
func TestMergeIsCalledOff(t *testing.T) {
	dir, w := filled(t)
	m, own := mergeOf(t, dir, w)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	forever := "(SELECT sum(sin(a.range + b.range)) FROM range(10000000000) a, range(10000000000) b) > 0"
	if err := w.mergeApart(ctx, m, []source{{file: own, where: forever}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("called off: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(dir, stageName)); err != nil || len(left) > 0 {
		t.Errorf("left in the stage: %v, %v", left, err)
	}
}

// A merge, or a file, that takes more time than it may is given up, and the file is set aside and named. The rows
// beside it are merged.
func TestFilesWithoutEnd(t *testing.T) {
	_, w := filled(t)
	m, own := mergeOf(t, w.o.Location, w)
	real := workTime
	t.Cleanup(func() { workTime = real })
	workTime = 300 * time.Millisecond
	forever := "(SELECT sum(sin(a.range + b.range)) FROM range(10000000000) a, range(10000000000) b) > 0"
	from := []source{{entry: entry{name: tenOClock + "/tier=r0/endless.parquet"}, file: own, where: forever}}
	if err := w.mergeApart(t.Context(), m, from); !errors.Is(err, errBeyond) {
		t.Errorf("given up: %v", err)
	}
	workTime = time.Nanosecond
	if n, err := w.sift(t.Context(), from, m.Columns); n != 1 || err != nil {
		t.Errorf("%d were set aside, %v", n, err)
	}
	if names, _ := w.Aside(); len(names) != 1 || !strings.Contains(names[0], "/endless.parquet: ") ||
		!strings.Contains(names[0], errBeyond.Error()) {
		t.Errorf("named: %q", names)
	}
	workTime = real
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

// An honest file is not set aside for its rows' number: that an hour can't be sorted says nothing against its files.
func TestHonestFileStays(t *testing.T) {
	_, w := filled(t)
	path := filepath.Join(t.TempDir(), "many.parquet")
	sql := "SELECT 'node-' || range % 100 AS node, hash(range)::VARCHAR AS _session, range AS step FROM range(500000)"
	if err := store.WriteParquet(t.Context(), sql, path, smallGroup, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := hour{table: "steps"}
	m := store.Merge{Columns: fileColumns(h), Order: sortedBy(h), RowGroup: rowGroup, MemoryLimit: 32 << 20}
	from := []source{{entry: entry{name: "many.parquet"}, file: f}}
	stage := w.place.stage()
	if err := w.mergeApart(t.Context(), m, from); !errors.Is(err, errBeyond) {
		t.Errorf("sorted in 32 MiB: %v", err)
	}
	if err := w.mergeHonest(t.Context(), m, from, stage, mergedName); err != nil {
		t.Errorf("unsorted in 32 MiB: %v", err)
	}
	if info, err := stage.Lstat(mergedName); err != nil || info.Size < 1<<20 {
		t.Errorf("merged: %+v, %v", info, err)
	}
	if err := stage.Remove(mergedName); err != nil {
		t.Error(err)
	}
	bad, err := w.sift(t.Context(), from, m.Columns)
	alone, err2 := w.siftAlone(t.Context(), m, from)
	if bad != 0 || alone != 0 || errors.Join(err, err2) != nil {
		t.Errorf("%d and %d files were set aside, %v, %v", bad, alone, err, err2)
	}
}

// TestLongTextsAreNamed: a question that runs out of memory over a small file whose texts are long names that file.
func TestLongTextsAreNamed(t *testing.T) {
	dir, _ := filled(t)
	files, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(tenOClock), "tier=r0/*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	bomb := strings.TrimSuffix(files[0], ".parquet") + "7.parquet"
	repeated(t, bomb, 1<<20, 4096)
	_, err = query(t.Context(), Choice{Location: dir}, "SELECT node FROM python.steps ORDER BY node")
	if err == nil || !strings.Contains(err.Error(), "the texts of "+bomb+" take up to 4 GiB") ||
		!strings.Contains(remedy.Of(err), "lake merge") {
		t.Errorf("%v, hint %q", err, remedy.Of(err))
	}
}
