package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/test/env"
)

var (
	began   = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	someOne = []api.Listed{
		{ID: "a1b2c3d4", Name: "resnet", Dir: "/data/s/resnet-a1b2c3d4", PIDs: []int{100, 102, 103, 104},
			Ranks: []int{0, 1, 2}, Started: began, State: "running", Command: []string{"torchrun", "--nproc-per-node",
				"3", "train.py", "--name", "it's a very long name, isn't it", ""}, Rows: 1204, DiskBytes: 3 << 20},
		{ID: "ffff0000", Name: "old", PIDs: []int{7}, Started: began.Add(-time.Hour), Ended: began,
			State: "killed by SIGKILL", Command: []string{"python"}, Rows: -1},
	}
)

func TestListTable(t *testing.T) {
	var b bytes.Buffer
	if err := writeList(&b, someOne, 0, began); err != nil {
		t.Fatal(err)
	}
	want := ` id       | name   | pids               | ranks   | command                                                                                | started              | state             |  rows |  disk
----------+--------+--------------------+---------+----------------------------------------------------------------------------------------+----------------------+-------------------+-------+-------
 a1b2c3d4 | resnet | 100, 102, 103, 104 | 0, 1, 2 | torchrun --nproc-per-node 3 train.py --name 'it'\''s a very long name, isn'\''t it' '' | 2026-03-01T12:00:00Z | running           | 1,204 | 3 MiB
 ffff0000 | old    | 7                  |         | python                                                                                 | 2026-03-01T11:00:00Z | killed by SIGKILL |       |   0 B
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestListFitsTerminal(t *testing.T) {
	var b bytes.Buffer
	if err := writeList(&b, someOne, 80, began.Add(12*time.Minute)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a1b2c3d4", "killed by", "torchrun", "columns not shown", "--json"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d wide: %s", n, line)
		}
	}
}

func TestNumbers(t *testing.T) {
	for want, list := range map[string][]int{"": nil, "3": {3}, "1-2": {1, 2}, "0-63": upTo(64),
		"1, 3-5, 9": {1, 3, 4, 5, 9}} {
		if got := numbers(list, true); got != want {
			t.Errorf("%v: %q, want %q", list, got, want)
		}
	}
	if got := numbers([]int{1, 2, 3}, false); got != "1, 2, 3" {
		t.Errorf("in a pipe: %q", got)
	}
}

func upTo(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func TestListJSON(t *testing.T) {
	var b bytes.Buffer
	if err := writeListJSON(&b, someOne); err != nil {
		t.Fatal(err)
	}
	var got struct {
		SchemaVersion int `json:"schema_version"`
		Sessions      []map[string]any
	}
	if err := json.Unmarshal(b.Bytes(), &got); err != nil || got.SchemaVersion != 1 || len(got.Sessions) != 2 {
		t.Fatal(err, b.String())
	}
	first, second := got.Sessions[0], got.Sessions[1]
	if first["ended"] != nil || first["rows"] != 1204.0 || len(first["command"].([]any)) != 7 ||
		first["started"] != "2026-03-01T12:00:00Z" {
		t.Errorf("%v", first)
	}
	if second["ended"] != "2026-03-01T12:00:00Z" || second["rows"] != nil || second["ranks"] == nil {
		t.Errorf("%v", second)
	}
	b.Reset()
	if err := writeListJSON(&b, nil); err != nil || !strings.Contains(b.String(), `"sessions": []`) {
		t.Error(b.String(), err)
	}
}

type catalogue []model.Table

func (c catalogue) Tables(_ context.Context, all bool) ([]model.Table, error) {
	if all {
		return append(c, model.Table{Schema: "store", Name: "steps"}, model.Table{Schema: "store", Name: "cursors"}),
			nil
	}
	return c, nil
}

func TestTables(t *testing.T) {
	from := catalogue{
		{Schema: "python", Name: "steps", Rows: 12345, Doc: "every step",
			Columns: []model.ColumnDoc{{Name: "step", Type: "BIGINT", Doc: "its number"}}},
		{Schema: "python", Name: "backtrace", Rows: -1, Doc: "stacks now"},
	}
	check := func(o TablesOptions, width int, want ...string) string {
		t.Helper()
		var b bytes.Buffer
		if err := RunTables(t.Context(), from, o, width, &b); err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(b.String(), w) {
				t.Errorf("no %q in\n%s", w, b.String())
			}
		}
		return b.String()
	}
	check(TablesOptions{}, 0, " python.steps     | 12,345 |       1 | every step\n",
		" python.backtrace |        |       0 | stacks now\n")
	one := check(TablesOptions{Names: []string{"Steps"}}, 0, "python.steps: every step\n",
		" step   | BIGINT | its number\n")
	check(TablesOptions{Names: []string{"cursors"}}, 0, "store.cursors: ")
	if strings.Contains(one, "backtrace") || strings.Contains(one, "store.") {
		t.Errorf("asked for one:\n%s", one)
	}
	check(TablesOptions{columns: true}, 0, "python.steps: ", "\npython.backtrace: ")
	check(TablesOptions{json: true}, 0, `"schema_version": 1`, `"rows": 12345`, `"rows": null`, `"columns": []`)
	if err := RunTables(t.Context(), from, TablesOptions{Names: []string{"nope"}}, 0, &bytes.Buffer{}); err == nil ||
		!strings.Contains(err.Error(), `"nope"`) {
		t.Error(err)
	}
}

// TestListElsewhere: a list of another place than the user named says so.
func TestListElsewhere(t *testing.T) {
	env.Root(t)
	dir := t.TempDir()
	theirs := filepath.Join(dir, "theirs")
	err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Mkdir(theirs, 0o755), os.Chown(theirs, 12345, 12345))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("MEMGAUGE_HOME", theirs)
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "mine"))
	var out, said bytes.Buffer
	a := &commands{&app.App{Stdout: &out, Stderr: &said}}
	if err := a.list(t.Context(), listOptions{}); err != nil || out.Len() > 0 {
		t.Errorf("%v, %s", err, &out)
	}
	if !strings.Contains(said.String(), theirs+" belongs to uid 12345") || strings.Count(said.String(), "\n") != 2 {
		t.Errorf("%s", &said)
	}
}
