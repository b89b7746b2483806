package tui

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/probe/inventory"
)

var (
	update = flag.Bool("update", false, "write the golden frames")
	record = flag.String("record", "", "write testdata/outputs.json.gz from the session in this directory")
)

// tape is what a session answered once.
type tape struct {
	About   api.About         `json:"about"`
	End     api.End           `json:"end"`
	Answers map[string][]byte `json:"answers"` // ndjson by kind of question
}

// kindOf tells the questions of this package apart.
func kindOf(sql string) string {
	switch {
	case sql == string(questions.Span):
		return "span"
	case strings.HasPrefix(sql, "SELECT * FROM ("):
		return "rows"
	case sql == string(questions.Tree):
		return "tree"
	case strings.HasPrefix(sql, "SELECT *, epoch_us(ts) AS t"):
		return "findings"
	case strings.HasPrefix(sql, "WITH t AS"):
		return "holders"
	}
	return "unknown"
}

// TestRecord writes a tape from a real session: go test -run TestRecord -record DIR, with memgauge in PATH.
func TestRecord(t *testing.T) {
	if *record == "" {
		t.Skip("only with -record DIR")
	}
	r := &recorder{dir: *record, tape: tape{Answers: map[string][]byte{}}}
	r.tape.About = api.About{Name: "outputs", ID: "51162a", Command: []string{"python", "outputs.py", "60"}}
	r.tape.End = api.End{Known: true, Text: "exit 0"}
	x := newSession(r, 0, 0)
	m := newModel(t.Context(), Options{Session: r})
	m.stack[1] = x
	if err := m.settle(x.start(m)); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if err := json.NewEncoder(z).Encode(r.tape); err != nil {
		t.Fatal(err)
	}
	z.Close()
	if err := os.WriteFile("testdata/outputs.json.gz", b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// recorder asks the command line, so that these tests need no database.
type recorder struct {
	api.Session
	dir  string
	tape tape
}

func (r *recorder) About(context.Context) (api.About, error) { return r.tape.About, nil }
func (r *recorder) End(context.Context) (api.End, error)     { return r.tape.End, nil }

// Paths of the machine that recorded it don't belong into a tape.
var elsewhere = regexp.MustCompile(`/[a-z0-9_./-]*/bin/python|/[a-z0-9_./-]*/(lib/python|examples/)|` +
	`/process_api/[0-9a-f]+`)

func (r *recorder) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	b, err := exec.CommandContext(ctx, "memgauge", "query", "--session", r.dir, "-f", "ndjson", q.SQL).Output()
	if err != nil {
		return err
	}
	b = elsewhere.ReplaceAllFunc(b, func(path []byte) []byte {
		if bytes.HasPrefix(path, []byte("/process_api")) {
			return []byte("/job")
		}
		return append([]byte("/usr"), path[bytes.LastIndexByte(path[:bytes.LastIndexByte(path, '/')], '/'):]...)
	})
	r.tape.Answers[kindOf(q.SQL)] = b
	_, err = w.Write(b)
	return err
}

// recorded answers from a tape. What else is asked of it fails, unless a test fills it in.
type recorded struct {
	api.Session
	tape   tape
	eval   func(q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error)
	stacks api.BacktraceReply
	closed bool
	asked  []string
}

func load(t testing.TB) *recorded {
	t.Helper()
	f, err := os.Open("testdata/outputs.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorded{}
	if err := json.NewDecoder(z).Decode(&r.tape); err != nil {
		t.Fatal(err)
	}
	r.tape.About.Cwd = "/srv/project"
	return r
}

func (r *recorded) About(context.Context) (api.About, error) { return r.tape.About, nil }
func (r *recorded) End(context.Context) (api.End, error)     { return r.tape.End, nil }
func (r *recorded) Close() error                             { r.closed = true; return nil }

func (r *recorded) Query(_ context.Context, q api.QueryRequest, w io.Writer) error {
	kind := kindOf(q.SQL)
	r.asked = append(r.asked, kind)
	answer, ok := r.tape.Answers[kind]
	if !ok {
		return fmt.Errorf("no answer to %s", q.SQL)
	}
	_, err := w.Write(answer)
	return err
}

func (r *recorded) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	return nil, errors.New("no outlook on a tape")
}

func (r *recorded) Eval(_ context.Context, q api.EvalRequest, out api.EvalOutput) (api.EvalReply, error) {
	return r.eval(q, out)
}

func (r *recorded) Backtrace(context.Context, api.BacktraceRequest) (api.BacktraceReply, error) {
	return r.stacks, nil
}

func (r *recorded) Census(context.Context, api.CensusRequest) (api.CensusReply, error) {
	return api.CensusReply{Censuses: []api.Census{{PID: 1, ID: 7, Visited: 1234, Longest: time.Millisecond}}}, nil
}

// house is a machine of which everything is said by the test.
type house struct {
	list     []api.Listed
	view     inventory.View
	sessions map[string]api.Session
	attached []int
	finished bool // finished sessions were asked for
	err      error
}

func (h *house) Machine(context.Context) (inventory.View, error) { return h.view, h.err }
func (h *house) Sessions(_ context.Context, all bool) ([]api.Listed, error) {
	h.finished = all
	return h.list, h.err
}

func (h *house) Open(_ context.Context, dir string) (api.Session, error) {
	return h.sessions[dir], h.err
}

func (h *house) Attach(_ context.Context, pid int) (string, string, error) {
	h.attached = append(h.attached, pid)
	return "new", "/new", h.err
}

// driver types on a model without a terminal: each message is followed to its end.
type driver struct {
	t testing.TB
	m *model
}

func drive(t testing.TB, o Options, wide, high int) *driver {
	t.Helper()
	clock := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	o.now, o.Location = func() time.Time { return clock }, time.UTC
	if o.Doors == nil {
		o.Doors = &house{}
	}
	d := &driver{t, newModel(t.Context(), o)}
	d.m.after = func(time.Duration, tea.Msg) tea.Cmd { return nil }
	t.Cleanup(d.m.close)
	d.m.wide, d.m.high = wide, high
	if err := d.m.settle(d.m.top().start(d.m)); err != nil {
		t.Fatal(err)
	}
	d.m.lines()
	return d
}

// keys types; a name in angle brackets is a key of its own.
func (d *driver) keys(names ...string) *driver {
	special := map[string]tea.KeyPressMsg{"<enter>": {Code: tea.KeyEnter}, "<esc>": {Code: tea.KeyEscape},
		"<tab>": {Code: tea.KeyTab}, "<left>": {Code: tea.KeyLeft}, "<right>": {Code: tea.KeyRight},
		"<up>": {Code: tea.KeyUp}, "<down>": {Code: tea.KeyDown}, "<home>": {Code: tea.KeyHome},
		"<end>": {Code: tea.KeyEnd}, "<space>": {Code: tea.KeySpace, Text: " "}, "<pgdown>": {Code: tea.KeyPgDown},
		"<pgup>": {Code: tea.KeyPgUp}}
	for _, name := range names {
		if k, ok := special[name]; ok {
			d.send(k)
			continue
		}
		for _, r := range name {
			d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
	return d
}

func (d *driver) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.follow(cmd)
	d.m.lines() // as bubbletea does
}

// follow runs what a message leads to.
func (d *driver) follow(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, c := range msg {
			d.follow(c)
		}
	case answer:
		d.send(msg)
	}
}

func (d *driver) frame() string {
	var b strings.Builder
	for _, l := range d.m.lines() {
		b.WriteString(strings.TrimRight(strip(l), " ") + "\n")
	}
	return b.String()
}

// golden compares a frame with the stored one.
func (d *driver) golden(name string) {
	d.t.Helper()
	path := "testdata/" + name + ".txt"
	got := d.frame()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			d.t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		d.t.Fatal(err)
	}
	if got != string(want) {
		d.t.Errorf("%s differs (-update writes it anew):\n%s\nwant\n%s", name, got, want)
	}
}

func (d *driver) has(texts ...string) {
	d.t.Helper()
	f := d.frame()
	for _, want := range texts {
		if !strings.Contains(f, want) {
			d.t.Errorf("no %q in\n%s", want, f)
		}
	}
}
