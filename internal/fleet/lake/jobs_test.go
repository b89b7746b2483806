package lake

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/fleet/frame"
	"github.com/memgauge/memgauge/internal/record/store"
	"github.com/memgauge/memgauge/test/frames"
)

// ofJob is a batch of a job's own node: rows of python.steps from that time on, a second apart.
func ofJob(job string, from time.Time, rows int) frame.Batch {
	h := frame.Header{Job: job, Node: "node-of-" + job, Rank: -1, Session: "s1", Table: "python.steps", First: 1,
		Count: rows}
	return frame.Batch{Header: h, Rows: frames.Rows(frames.Fields(h.Table), rows, func(f frame.Field, i int) any {
		switch f.Name {
		case "job":
			return h.Job
		case "node":
			return h.Node
		case "rank":
			return i % 8
		case "ts":
			return from.Add(time.Duration(i) * time.Second)
		case "step":
			return i
		}
		return nil
	})}
}

// readersFiles are the files that readers of a lake have, by partition.
func readersFiles(t *testing.T, w *Writer) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for h, c := range sortOut(listed(t, w)) {
		for _, f := range c.current() {
			out[h.dir()] = append(out[h.dir()], f.name)
		}
	}
	return out
}

// TestOneFileOfAllJobs: a flush makes one file of a table and hour, whatever the number of jobs, and so does a merge. A
// question about one job reads the groups of rows that have it.
func TestOneFileOfAllJobs(t *testing.T) {
	const jobs, rows = 60, 300
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	var all []frame.Batch
	for k := range jobs {
		all = append(all, ofJob(fmt.Sprintf("job-%02d", (k*7)%jobs), began, rows)) // not in order
	}
	if err := w.AppendAll(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if files := readersFiles(t, w); len(files) != 1 || len(files[tenOClock+"/"]) != 1 {
			t.Errorf("%s: %v", when, files)
		}
		for _, c := range []Choice{{Location: dir, Job: "job-33"}, {Location: dir}} {
			got := csv(t, c, "SELECT count(*), min(node), max(node) FROM python.steps WHERE job = 'job-33'")
			if got != fmt.Sprintf("%d,node-of-job-33,node-of-job-33", rows) {
				t.Errorf("%s: %s", when, got)
			}
		}
		if got := csv(t, Choice{Location: dir}, "SELECT count(DISTINCT job), count(*) FROM python.steps"); got !=
			fmt.Sprintf("%d,%d", jobs, jobs*rows) {
			t.Errorf("%s: %s", when, got)
		}
	}
	check("flushed")
	oneGroup(t, filepath.Join(dir, readersFiles(t, w)[tenOClock+"/"][0]), "job-33")
	if err := w.AppendAll(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	check("sent again")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	check("merged")
	list, err := StatusOf(t.Context(), dir)
	if err != nil || len(list) != jobs || list[33].Job != "job-33" || list[33].Hours != 1 || list[33].Tables != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// former makes a file as a memgauge before made it: in the partition of its job, without a column of that.
func former(t *testing.T, dir string, b frame.Batch) {
	t.Helper()
	whole := b.Rows
	fields := whole.Fields()
	own := slices.DeleteFunc(slices.Clone(fields), func(f frame.Field) bool { return f.Name == jobColumn })
	rows := frames.Rows(own, b.Count,
		func(f frame.Field, row int) any {
			c := whole.Column(slices.Index(fields, f))
			switch {
			case c.Null(row):
				return nil
			case f.Type == frame.Text:
				return string(c.Bytes(row))
			case f.Type == frame.Time:
				return time.UnixMicro(c.Int(row))
			}
			return c.Int(row)
		})
	times := rows.Column(slices.IndexFunc(rows.Fields(), func(f frame.Field) bool { return f.Name == "ts" }))
	h := hour{"steps", b.Job, hourAt(&times, 0, time.Now())}
	one := piece{b.Job, b.Node + "/" + b.Session, b.Session, b.First, rows}
	path := filepath.Join(dir, filepath.FromSlash(h.dir()), "tier=r0", b.Node+".parquet")
	f := created(t, path)
	defer f.Close()
	if err := writeParquet(f, []piece{one}, ledger{one.stream: {one.span()}}); err != nil {
		t.Fatal(err)
	}
}

// TestFormerPartitions: what a memgauge before kept by job is asked together with what comes now, before it is merged
// and after; rows of it that come again are left out; and it is given up as other hours are.
func TestFormerPartitions(t *testing.T) {
	dir := t.TempDir()
	old := []frame.Batch{ofJob("llama", began, 20), ofJob("qwen", began, 30)}
	for _, b := range old {
		former(t, dir, b)
	}
	w := writer(t, soon(dir))
	check := func(when, want string) {
		t.Helper()
		got := csv(t, Choice{Location: dir}, "SELECT job || ':' || count(*) || ':' || count(DISTINCT (node, step)) "+
			"FROM python.steps WHERE date = '2026-01-01' GROUP BY job ORDER BY job")
		if got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	check("before", "llama:20:20 qwen:30:30")
	again := func() {
		longer := ofJob("llama", began, 25) // its first are there
		if err := w.AppendAll(t.Context(), append(slices.Clone(old), longer, ofJob("new", began, 5))); err != nil {
			t.Fatal(err)
		}
	}
	again()
	check("with what came", "llama:25:25 new:5:5 qwen:30:30")
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged != 3 {
		t.Errorf("%+v, %v: two partitions of before and one of now were to be merged", r, err)
	}
	check("merged", "llama:25:25 new:5:5 qwen:30:30")
	w.Close()
	w = writer(t, soon(dir))
	again()
	check("another writer", "llama:25:25 new:5:5 qwen:30:30")
	for job, want := range map[string]string{"llama": "25", "qwen": "30", "new": "5"} {
		if got := csv(t, Choice{Location: dir, Job: job, Since: began}, countRows); got != want {
			t.Errorf("of %s: %s rows", job, got)
		}
	}
	if list, err := StatusOf(t.Context(), dir); err != nil || len(list) != 3 || list[0].Job != "llama" ||
		list[0].Hours != 2 || list[1].Hours != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	parts, err := Partitions(t.Context(), dir)
	var jobs []string
	for _, p := range parts {
		jobs = append(jobs, p.Job)
	}
	if slices.Sort(jobs); err != nil || !slices.Equal(jobs, []string{"", "llama", "qwen"}) {
		t.Errorf("%q, %v", jobs, err)
	}
	w.o.MaxAge = time.Hour
	if r, err := w.Maintain(t.Context()); err != nil || r.GivenUp != 3 || r.Bytes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	check("given up", "")
	if _, err := Open(t.Context(), Choice{Location: dir, Job: "llama"}); err == nil ||
		remedy.Of(err) != "the lake is empty" {
		t.Errorf("a job that was given up: %v, hint %q", err, remedy.Of(err))
	}
	w.Close()
}

// counting tells what was listed of a place, and how many files that gave.
type counting struct {
	place
	files int
}

func (c *counting) list(ctx context.Context, prefix string) ([]entry, error) {
	files, err := c.place.list(ctx, prefix)
	if prefix != listsDir {
		c.files += len(files)
	}
	return files, err
}

// TestListsWhatIsAsked: a question lists the files of its table, of its job's hours and of its time, and no others.
func TestListsWhatIsAsked(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	defer w.Close()
	const days = 6
	for k := range days {
		at := began.Add(time.Duration(k) * 24 * time.Hour)
		batches := []frame.Batch{ofJob("always", at, 2)}
		if k == 2 {
			batches = append(batches, ofJob("once", at, 2))
		}
		for _, b := range batches {
			b.First = uint64(1 + 2*k)
			appended(t, w, b)
		}
	}
	events := framed(frame.Header{Job: "once", Node: "n", Rank: -1, Session: "s", Table: "memgauge.events", First: 1,
		Count: 1}, []frame.Field{tsField}, func(string, int) any { return began })
	appended(t, w, events)
	third := began.Add(2 * 24 * time.Hour)
	for what, x := range map[string]struct {
		Choice
		listed, chosen int
	}{
		"all":             {Choice{}, days + 2, days + 2},
		"a table":         {Choice{SQL: "FROM python.steps"}, days + 1, days + 1},
		"a table's job":   {Choice{SQL: "FROM python.steps", Job: "once"}, 3, 3},
		"its days":        {Choice{SQL: "FROM python.steps", Since: third}, days - 1, days - 1},
		"a job's days":    {Choice{SQL: "FROM python.steps", Job: "always", Since: third.Add(24 * time.Hour)}, 3, 3},
		"a job elsewhere": {Choice{SQL: "FROM memgauge.events", Job: "always"}, 1, 1},
		"none of a job":   {Choice{SQL: "FROM python.steps", Job: "once", Since: third.Add(24 * time.Hour)}, 0, 0},
	} {
		p := &counting{place: w.place}
		files, _, err := choose(t.Context(), p, x.Choice)
		chosen := 0
		for _, list := range files {
			chosen += len(list)
		}
		if err != nil || p.files != x.listed || chosen != x.chosen {
			t.Errorf("%s: %d files were listed and %d chosen, %v; want %d and %d", what, p.files, chosen, err, x.listed,
				x.chosen)
		}
	}
	if _, _, err := choose(t.Context(), w.place, Choice{Job: "nonce"}); err == nil ||
		remedy.Of(err) != "jobs in it: always, once" {
		t.Errorf("%v, hint %q", err, remedy.Of(err))
	}
}

// TestListsOfJobsLost: a day whose list is missing, damaged, or was begun after there were rows, hides no row of any
// job; nor does one that is full. A list goes with its day.
func TestListsOfJobsLost(t *testing.T) {
	list := func(dir string) string { return filepath.Join(dir, ".jobs", "2026-01-01.json") }
	for what, spoil := range map[string]func(dir string) error{
		"missing": func(dir string) error { return os.RemoveAll(filepath.Join(dir, ".jobs")) },
		"damaged": func(dir string) error { return os.WriteFile(list(dir), []byte(`{"jobs":{"llama":`), 0o600) },
		"null":    func(dir string) error { return os.WriteFile(list(dir), []byte(`null`), 0o600) },
	} {
		dir := t.TempDir()
		w := writer(t, soon(dir))
		appended(t, w, ofJob("first", began, 7))
		if err := errors.Join(w.Close(), spoil(dir)); err != nil {
			t.Fatal(err)
		}
		ask := func(job, want string) {
			t.Helper()
			if got := csv(t, Choice{Location: dir, Job: job}, countRows); got != want {
				t.Errorf("%s: %s rows of %s, want %s", what, got, job, want)
			}
		}
		ask("first", "7")
		w = writer(t, soon(dir))
		appended(t, w, ofJob("second", began, 3))
		ask("first", "7")
		ask("second", "3")
		w.o.MaxAge = time.Hour
		if r, err := w.Maintain(t.Context()); err != nil || r.GivenUp == 0 {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := os.Stat(list(dir)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the list of a day that was given up: %v", what, err)
		}
		w.Close()
	}
	full := &day{Jobs: map[string]uint32{}}
	for k := range maxListed + 5 {
		full.add(map[string]uint32{fmt.Sprint("job", k): 1})
	}
	if !full.may("another", 3) || len(full.Jobs) > maxListed+1 || full.add(map[string]uint32{"another": 1}) ||
		!full.add(map[string]uint32{"job1": 2}) {
		t.Errorf("a full list has %d jobs", len(full.Jobs))
	}
}

// oneGroup wants one group of a file's rows to have a job, of several, by what its footer says.
func oneGroup(t *testing.T, path, job string) {
	t.Helper()
	sql := fmt.Sprintf(`SELECT if(has = 1 AND n > 1, 1, error(has || ' of ' || n || ' groups of rows have the job'))
		FROM (SELECT count(*) AS n, count(*) FILTER ('%s' BETWEEN stats_min_value AND stats_max_value) AS has
			FROM parquet_metadata('%s') WHERE path_in_schema = 'job')`, job, path)
	if err := store.WriteParquet(t.Context(), sql, filepath.Join(t.TempDir(), "x"), 1, t.TempDir()); err != nil {
		t.Error(err)
	}
}
