package ask

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/record/sink"
)

// answer writes some text and then fails or not.
type answer struct {
	text string
	err  error
	wait bool // until the query is given up
}

func (a answer) Query(ctx context.Context, _ api.QueryRequest, w io.Writer) error {
	if _, err := io.WriteString(w, a.text); err != nil {
		return err
	}
	if a.wait {
		<-ctx.Done()
		return errors.New("use of closed network connection")
	}
	return a.err
}

func TestQueryPrintsNothingWhenItFails(t *testing.T) {
	for name, size := range map[string]int{"in memory": 100, "in a file": sink.MemorySpool + 100_000} {
		t.Run(name, func(t *testing.T) {
			var stdout bytes.Buffer
			text := strings.Repeat("x", size)
			out := &sink.Spool{To: &stdout}
			sad := errors.New("no such column")
			if err := RunQuery(t.Context(), answer{text: text, err: sad}, api.QueryRequest{}, out); !errors.Is(err,
				sad) || err.Error() != "query: no such column" {
				t.Error(err)
			}
			out.Discard()
			if stdout.Len() != 0 {
				t.Errorf("%d bytes came out", stdout.Len())
			}
			if err := RunQuery(t.Context(), answer{text: text}, api.QueryRequest{},
				&sink.Spool{To: &stdout}); err != nil ||
				stdout.String() != text {
				t.Errorf("%v, %d of %d bytes", err, stdout.Len(), len(text))
			}
		})
	}
}

// Many small writes cross the bound between memory and file in order.
func TestSpoolKeepsOrder(t *testing.T) {
	var want, got bytes.Buffer
	out := &sink.Spool{To: &got}
	for i := range 300 {
		piece := bytes.Repeat([]byte{byte(i)}, 50_000)
		want.Write(piece)
		if _, err := out.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	if out.Tail == nil {
		t.Fatal("15 MB fit into memory")
	}
	if err := out.Commit(); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) {
		t.Errorf("%v, %d of %d bytes", err, got.Len(), want.Len())
	}
}

func TestQueryTimeLimitAndInterrupt(t *testing.T) {
	o := QueryOptions{timeout: units.Duration(time.Millisecond)}
	ctx, cancel := o.Limit(t.Context())
	defer cancel()
	a := &commands{&app.App{Stderr: io.Discard}}
	err := RunQuery(ctx, answer{wait: true}, api.QueryRequest{}, &sink.Spool{To: io.Discard})
	if code := a.Report(err); code != app.ExitTimeout || !strings.Contains(err.Error(), "1 ms") {
		t.Errorf("exit %d: %v", code, err)
	}
	ctx, cancel = QueryOptions{}.Limit(t.Context())
	cancel()
	err = RunQuery(ctx, answer{wait: true}, api.QueryRequest{}, &sink.Spool{To: io.Discard})
	if code := a.Report(err); code != app.ExitInterrupted {
		t.Errorf("exit %d: %v", code, err)
	}
}

func TestQueryFormat(t *testing.T) {
	for _, c := range []struct {
		o        QueryOptions
		terminal bool
		want     string
	}{
		{QueryOptions{}, true, "table"},
		{QueryOptions{Output: "a.csv"}, false, "csv"},
		{QueryOptions{Output: "a.csv", format: "json"}, false, "json"},
		{QueryOptions{Output: "b.d/a"}, false, "table"},
		{QueryOptions{Output: "a.parquet"}, false, "parquet"},
		{QueryOptions{format: "parquet"}, false, "parquet"},
		{QueryOptions{format: "parquet"}, true, ""},
		{QueryOptions{format: "xml"}, false, ""},
		{QueryOptions{Output: "a.xlsx"}, false, ""},
	} {
		got, err := c.o.formatFor(c.terminal)
		if string(got) != c.want || (err != nil) != (c.want == "") || err != nil && !app.IsUsage(err) {
			t.Errorf("%+v: %q, %v", c.o, got, err)
		}
	}
}

func TestStatement(t *testing.T) {
	a := &app.App{Stdin: strings.NewReader("SELECT 1\n")}
	if got, err := statement(t.Context(), a, "-"); err != nil || got != "SELECT 1\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := statement(t.Context(), a, " \n"); err == nil {
		t.Error("an empty statement")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() // ends the reading goroutine
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := statement(ctx, &app.App{Stdin: r}, "-"); !errors.Is(err, api.ErrCanceled) {
		t.Errorf("a terminal that says nothing: %v", err)
	}
}

func TestCreateReplacesAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out.csv")
	link := filepath.Join(dir, "link.csv")
	if err := errors.Join(os.WriteFile(path, []byte("old"), 0o640), os.Symlink("out.csv", link)); err != nil {
		t.Fatal(err)
	}
	write := func(ok bool) {
		t.Helper()
		out, err := sink.Create(link)
		if err != nil {
			t.Fatal(err)
		}
		defer out.Discard()
		if _, err := io.WriteString(out, "new"); err != nil {
			t.Fatal(err)
		}
		if ok {
			if err := out.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	check := func(want string) {
		t.Helper()
		b, err := os.ReadFile(path)
		entries, _ := os.ReadDir(dir)
		if err != nil || string(b) != want || len(entries) != 2 {
			t.Errorf("%q, %v, %v", b, err, entries)
		}
	}
	write(false)
	check("old")
	write(true)
	check("new")
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Error("the link was replaced")
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Error("the file's mode changed")
	}
}

func TestCreateRefusesBeforeTheQuery(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{
		dir: syscall.EISDIR, filepath.Join(dir, "absent", "x"): syscall.ENOENT, fifo: syscall.ENXIO,
		"/proc/x.csv": syscall.ENOENT,
	} {
		if out, err := sink.Create(path); !errors.Is(err, want) {
			t.Errorf("%s: %v, %v", path, out, err)
		}
	}
}

func TestCreateWritesToDevices(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	out, err := sink.Create(fifo)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(out, "row\n")
	if err := out.Commit(); err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "row\n" {
		t.Errorf("%q, %v", b, err)
	}
}
