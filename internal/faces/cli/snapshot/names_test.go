package snapshot_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	own "github.com/memgauge/memgauge/internal/faces/cli/snapshot"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// Whatever a file's names are, they stay on their line, and no control character of theirs comes out, not into a pipe
// either: somebody may look at what it leads to.
func TestNamesForgeNothing(t *testing.T) {
	const evil = "x\n  growth      forged\x1b[2J\a\r\x00\u202e"
	dir := t.TempDir()
	var pickle bytes.Buffer
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{{{Action: snapshot.Alloc, Addr: 1 << 20, Size: 1 << 20, Time: 1,
		Frames: []snapshot.Frame{{File: evil + ".py", Line: 1, Name: evil}}}}}}
	if err := snapshot.WritePickle(&pickle, s); err != nil {
		t.Fatal(err)
	}
	jax := "\n\x04\b\x01\x10\x02\n\x04\b\x03\x10\x04"
	for _, text := range []string{"", "allocations", "count", "space", "bytes", "kind", "buffer", "device", evil} {
		jax += "\x32" + string(rune(len(text))) + text
	}
	jax += "\x22\x06\x08\x01\x22\x02\x08\x01\x2a\x06\x08\x01\x10\x08\x20\x08" + // a location and its function
		"\x12\x0c\x08\x01\x10\x01\x10\x01\x1a\x04\x08\x07\x10\x08" // a buffer of the device
	none, err := os.ReadFile("../../../../testdata/snapshots/mosaic.pickle")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"a.pickle": pickle.String(), "a.pprof": jax, "a.other": string(none)}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"a.pickle", "diff a.other a.pickle", "a.pprof"} {
		args := strings.Fields("snapshot " + line)
		for i, x := range args {
			if strings.HasPrefix(x, "a.") {
				args[i] = filepath.Join(dir, x)
			}
		}
		var out, errs bytes.Buffer
		app.Main([]app.Family{own.Commands}, args, strings.NewReader(""), &out, &errs)
		if !strings.Contains(out.String(), `x\n  growth      forged\x1b[2J`) {
			t.Errorf("%s prints %q, %s", line, out.String(), errs.String())
		}
		for _, l := range strings.Split(out.String(), "\n") {
			if strings.HasPrefix(l, "  growth      forged") || strings.ContainsFunc(l, unicode.IsControl) ||
				strings.Contains(l, "\u202e") {
				t.Errorf("%s: %q", line, l)
			}
		}
	}
}
