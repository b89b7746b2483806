package export_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	asking "github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/export"
	"github.com/memgauge/memgauge/internal/faces/cli/watch"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/rights"
)

// hostile is a session elsewhere that says one word wherever it has a say, and numbers that nobody asked for.
type hostile struct {
	rights.Session
	word  string
	index int
}

func (h *hostile) about() api.About {
	return api.About{ID: h.word, Name: h.word, Dir: h.word, Command: []string{h.word}, Cwd: h.word, Host: h.word,
		Live: true}
}

func (h *hostile) About(context.Context) (api.About, error) { return h.about(), nil }

func (h *hostile) Tables(context.Context, bool) ([]model.Table, error) {
	return []model.Table{{Schema: h.word, Name: h.word, Rows: 5}, {Name: h.word, Rows: 5}}, nil
}

func (h *hostile) Processes(context.Context, api.ProcessesRequest) ([]api.Process, error) {
	return []api.Process{{PID: 7, Rank: -1, Alive: true}}, nil
}

func (h *hostile) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	f := detect.Finding{PID: 7, Memory: detect.Kind(h.word), Device: h.word, Site: h.word}
	return detect.Report{Findings: []detect.Finding{f}}, nil
}

// Query answers every question with one row, in which the columns of all statements have the word.
func (h *hostile) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	if q.Format != "ndjson" {
		_, err := io.WriteString(w, "PWNED")
		return err
	}
	row := map[string]any{"i": h.index, "from": 1, "to": 2, "pid": 7, "steps": 1, "peak": 5, "n": 3, "step": 1,
		"moment": 1, "device": h.word}
	for _, name := range []string{"role", "command", "kind", "name", "host"} {
		row[name] = h.word
	}
	if strings.Contains(q.SQL, "AS device") && !strings.Contains(q.SQL, "arg_max(device") {
		row["device"] = 0 // a trace has numbers
	}
	return json.NewEncoder(w).Encode(row)
}

// TestNamesOfOthersStayBelow: whatever a session that is elsewhere says its name, host, tables, roles and devices are,
// each export and the report write below the directory that they were given, and nothing else.
func TestNamesOfOthersStayBelow(t *testing.T) {
	for i, word := range []string{"/../../victim/all", "../../victim/all", "x/../../../victim/all", "..", ".", "",
		"/abs/victim", "a\x00b", strings.Repeat("x/", 300), "link/all", `..\..\victim`, "-rf", "\xff/../.."} {
		for _, line := range [][]string{{"export", "--tensorboard", "out"}, {"export", "--parquet", "out"},
			{"export", "--perfetto", "out/a.json"}, {"export", "--pprof", "out/a.pb.gz"}, {"report"}} {
			t.Run(fmt.Sprint(i, line), func(t *testing.T) { stayBelow(t, word, line) })
		}
	}
}

func stayBelow(t *testing.T, word string, line []string) {
	top := t.TempDir()
	work := filepath.Join(top, "a", "work")
	for _, dir := range []string{filepath.Join(work, "out"), filepath.Join(top, "victim"),
		filepath.Join(top, "a", "victim")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(filepath.Join(top, "victim"), filepath.Join(work, "out", "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(work)
	h := &hostile{word: word}
	said, err := tell(t, h, h.about(), line)
	made := 0
	walked := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Type() == fs.ModeSymlink {
			return err
		}
		in := filepath.Dir(path) == work
		if line[0] == "export" {
			in = strings.HasPrefix(path, filepath.Join(work, "out")+"/")
		}
		if made++; !in {
			t.Errorf("%s was written", path)
		}
		return nil
	})
	if walked != nil {
		t.Fatal(walked)
	}
	if err == nil && made == 0 {
		t.Error("nothing was written, and nothing said")
	}
	if err != nil {
		t.Logf("%v; %s", err, said)
	}
}

// tell runs a command line about a session.
func tell(t *testing.T, s api.Session, about api.About, line []string) (said string, err error) {
	far := ask.Far(about, -1, func() api.Session { return s })
	var out bytes.Buffer
	a := &app.App{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Far: &far,
		Families: []app.Family{export.Commands, watch.Commands, asking.Commands}}
	root := a.RootCommand()
	root.SetArgs(line)
	err = root.ExecuteContext(t.Context())
	return out.String(), err
}

// TestNumbersOfOthers: a number from elsewhere that counts what is here may be any.
func TestNumbersOfOthers(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, index := range []int{99, -1, 1} {
		h := &hostile{word: "x", index: index}
		if said, err := tell(t, h, h.about(), []string{"export", "--tensorboard", "out"}); err == nil {
			t.Errorf("finding %d: %s", index, said)
		}
	}
}
