package snapshot

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/test/env"
)

// pack compresses a beginning, so many times a piece, and an end.
func pack(t *testing.T, begin, piece string, times int, end string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	block := []byte(strings.Repeat(piece, 1<<16/len(piece)))
	write := func(b []byte) {
		if _, err := z.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write([]byte(begin))
	for n := times * len(piece); n > 0; n -= len(block) {
		write(block[:min(n, len(block)/len(piece)*len(piece))])
	}
	write([]byte(end))
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// maxTaken is the bound of what is made of a small file, its bytes, and what garbage and growing slices may add. Such
// files took more than 5 GiB before.
const maxTaken = 3 << 30

// White space without end is refused at once, whatever stands before it; what people and programs indent is read.
func TestBlanks(t *testing.T) {
	for name, data := range map[string][]byte{
		"before a list":    pack(t, `{"traceEvents":`, " ", 60<<20, `[]}`),
		"between events":   pack(t, `{"traceEvents":[{"ph":"M"},`, "\n", 60<<20, `{}]}`),
		"in another value": pack(t, `{"schemaVersion":1,"traceEvents":[],"a":[1,`, "\t \r\n", 15<<20, `2]}`),
	} {
		_, err := ReadColumns(context.Background(), bytes.NewReader(data), testBudget)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "more than 64 KiB of white space") {
			t.Errorf("%s: %v", name, err)
		}
	}
	wide := strings.Repeat(" ", maxBlank)
	_, err := ReadColumns(context.Background(), strings.NewReader(`{"traceEvents":`+wide+`[{"ph":"M"}]}`), testBudget)
	if err == nil || !strings.Contains(err.Error(), "has no memory events") {
		t.Errorf("wide: %v", err)
	}
}

// Small archives that would unpack to gigabytes, or of which gigabytes would be made: each is given up in time.
func TestSmallArchivesStaySmall(t *testing.T) {
	env.Long(t, "gigabytes are unpacked")
	for name, data := range map[string][]byte{
		"zeros":    pack(t, "\x80\x02", "\x00", 1<<30, "."),
		"values":   pack(t, "\x80\x02(", "N", 60<<20, "l."),
		"log":      pack(t, "Action,Pointer,Size\n", "free,1,1\n", 7<<20, ""),
		"lists":    pack(t, "\x80\x02(", "]", 60<<20, "l."),
		"events":   pack(t, "device 0\n", "free 1 1\n", 7<<20, ""),
		"one line": pack(t, `{"action":"a","frames":[`, `"",`, 20<<20, `""]}`),
	} {
		debug.FreeOSMemory()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if len(data) > 4<<20 {
			t.Fatalf("%s: %d bytes packed", name, len(data))
		}
		s, _, err := Read(bytes.NewReader(data))
		runtime.ReadMemStats(&after)
		took := int64(after.HeapSys-after.HeapReleased) - int64(before.HeapSys-before.HeapReleased)
		if took > maxTaken {
			t.Errorf("%s: %d MiB packed took %d MiB", name, len(data)>>20, took>>20)
		}
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		if (s == nil) == (err == nil) {
			t.Errorf("%s: snapshot %v and error %v", name, s != nil, err)
		}
		t.Logf("%-12s %4d KiB packed, at most %5d MiB more: %v", name, len(data)>>10, took>>20, err)
	}
	_, err := ReadColumns(context.Background(), bytes.NewReader(pack(t, "\x80\x02(", "]", 200<<20, "l.")), 4<<30)
	if err == nil || !strings.Contains(err.Error(), "would take more memory") {
		t.Errorf("a stream of lists: %v", err)
	}
	_, _, err = Read(bytes.NewReader(pack(t, "device 0\n", "#\n", 1<<27, "")))
	if err == nil || !strings.Contains(err.Error(), "unpacks to more") ||
		!strings.Contains(remedy.Of(err), "unpack it first") {
		t.Errorf("%v", err)
	}
}

// What real programs write fits with room to spare, however long their history is: without the part that every file
// has.
func TestHonestFilesFit(t *testing.T) {
	s := file(t, mosaic)
	for _, f := range []struct {
		name  string
		write func(*bytes.Buffer) error
		read  func([]byte, *budget) (*Snapshot, error)
	}{
		{"trace", func(b *bytes.Buffer) error {
			tr, err := s.Trace(0)
			if err != nil {
				return err
			}
			return WriteTrace(b, tr)
		}, readTraceText},
		{"lines", func(b *bytes.Buffer) error { return WriteLines(b, s) }, readLines},
		{"log", func(b *bytes.Buffer) error { return WriteRMM(b, s, 0) }, readRMM},
	} {
		var out bytes.Buffer
		if err := f.write(&out); err != nil {
			t.Fatal(err)
		}
		limit := &budget{1 << 40}
		if _, err := f.read(out.Bytes(), limit); err != nil {
			t.Fatal(err)
		}
		ratio := float64(1<<40-limit.left) / float64(out.Len())
		t.Logf("%s: %.1f times its size", f.name, ratio)
		if ratio > maxMemory {
			t.Errorf("%s: %.1f times its size, at most %d", f.name, ratio, maxMemory)
		}
	}
}
