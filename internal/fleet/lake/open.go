package lake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/trust"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/fleet/skew"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/table"
	"github.com/memgauge/memgauge/internal/record/session"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Choice says which part of a lake is opened.
type Choice struct {
	Location string
	Job      string    // only this job; "": all
	Node     string    // only rows of this node; "": all
	Rank     *int      // only rows of this rank, in tables that have one; nil: all
	Since    time.Time // only hours that end after it; zero: all
	SQL      string    // only tables that this statement mentions; "": all
	Views    []string  // only these tables; none: what SQL says
	TempDir  string    // for spilling; "": the system's
}

// Tables is an open lake, as it was when it was opened. A process of its own answers for it, which can read the lake's
// files and nothing else: rows and statements may come from anybody.
type Tables struct {
	cell  *cell.Cell
	Bytes int64 // of the files that were chosen

	// Note is told which files were left out, by the first question of Compare or Jobs. It may be nil.
	Note func(string)
}

var _ api.Tabled = (*Tables)(nil)

// ErrTooMuch is a question for which more would have to be fetched than MaxDownload, or maxFiles read.
var ErrTooMuch = errors.New("too much for one machine")

// MaxDownload bounds what a question fetches from S3 to answer on this machine, in bytes: about a fleet-day. Beyond
// it Trino reads where the files lie.
const MaxDownload = int64(20 * units.GiB)

// Open opens a part of a lake. Files of S3 are fetched into the cache of memgauge first, unless they are there.
func Open(ctx context.Context, c Choice) (*Tables, error) {
	reads := &progress{}
	reads.reached(c.Location)
	return patiently(ctx, reads, func() (*Tables, error) { return open(ctx, c, reads) },
		func(t *Tables) { _ = t.Close() })
}

func open(ctx context.Context, c Choice, reads *progress) (*Tables, error) {
	p, err := openPlace(ctx, c.Location, false)
	if err != nil {
		return nil, err
	}
	defer p.close()
	if d, here := p.(*directory); here {
		d.reads = reads
	} else {
		reads.never() // the client of S3 has times of its own
	}
	for again := 0; ; again++ {
		t, err := openOn(ctx, p, c)
		if errors.Is(err, fs.ErrNotExist) && again < 3 { // a merge has replaced what was listed
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("open the lake %s: %w", p.text(), err)
		}
		return t, nil
	}
}

func openOn(ctx context.Context, p place, c Choice) (*Tables, error) {
	files, bytes, err := choose(ctx, p, c)
	if err != nil {
		return nil, err
	}
	root, cache := p.text(), (*rootdir.Dir)(nil)
	if _, remote := p.(*bucket); remote {
		if bytes > MaxDownload {
			return nil, remedy.Add(fmt.Errorf("%w: %s of the lake", ErrTooMuch, units.Bytes(bytes)),
				"narrow it with --since or --job, or let Trino answer: --engine trino")
		}
		if cache, err = cacheOf(p); err != nil {
			return nil, err
		}
		defer cache.Close()
		root = cache.Path()
	}
	views, err := viewsOf(ctx, p, files, root, cache, c)
	if err != nil {
		return nil, err
	}
	if d, here := p.(*directory); here {
		d.reads.never() // a cell has times of its own
	}
	work, err := cell.Start(cell.Spec{Kind: CellKind, Task: task{Root: root, Views: views}, Read: []string{root},
		Tmp: c.TempDir})
	if err != nil {
		return nil, err
	}
	return &Tables{cell: work, Bytes: bytes}, nil
}

// cacheOf is where files of S3 are kept on this machine: one directory for each lake.
func cacheOf(p place) (*rootdir.Dir, error) {
	dir, err := session.Cache()
	if err != nil {
		return nil, err
	}
	name := strings.Map(func(r rune) rune {
		if r == '/' || r == ':' {
			return '_'
		}
		return r
	}, strings.TrimPrefix(p.text(), "s3://"))
	return rootdir.Own(filepath.Join(dir, "lake", name), trust.Data)
}

// maxFiles bounds the files of a table that a question reads: with 20,000 DuckDB has used its memory up, after a
// minute, before it looks at a row. It is a variable for tests.
var maxFiles = 20_000

// choose finds the files that a choice means, by their directory.
func choose(ctx context.Context, p place, c Choice) (map[string][]entry, int64, error) {
	out, bytes, lists := map[string][]entry{}, int64(0), calendar{p, map[string]*day{}}
	for _, t := range table.All {
		if !c.means(t) {
			continue
		}
		list, err := c.list(ctx, p, t.Store, &lists)
		if err != nil {
			return nil, 0, err
		}
		var files []entry
		for h, have := range sortOut(list) {
			if h.begin.Add(time.Hour).After(c.Since) && lists.has(ctx, h, c.Job) {
				files = append(files, have.current()...)
			}
		}
		if len(files) >= maxFiles {
			return nil, 0, remedy.Add(fmt.Errorf("%w: %s has %d files, fewer than %d are read", ErrTooMuch, t.Store,
				len(files), maxFiles), "narrow it with --since or --job; `memgauge lake merge WHERE` makes one "+
				"file of an hour's; --engine trino reads any number")
		}
		order.By(files, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
		for _, f := range files {
			bytes += f.size
		}
		out[t.Store] = files
	}
	if c.Job != "" && bytes == 0 {
		return out, 0, noJob(ctx, p, c.Job)
	}
	return out, bytes, nil
}

// means says whether a table is one of the choice's.
func (c Choice) means(t *table.Table) bool {
	_, bare, ok := strings.Cut(t.View, ".")
	sql := strings.ToLower(c.SQL)
	return ok && (sql == "" || strings.Contains(sql, bare) || describing(sql)) &&
		(len(c.Views) == 0 || slices.Contains(c.Views, t.View))
}

// list lists what a table has of the choice: of a job the hours that may have it, of a time its days.
func (c Choice) list(ctx context.Context, p place, of string, lists *calendar) (files []entry, err error) {
	if c.Job == "" && c.Since.IsZero() {
		return p.list(ctx, of+"/")
	}
	below, err := p.dirs(ctx, of)
	if err != nil {
		return nil, err
	}
	var days []string
	for _, name := range below {
		if job, former := strings.CutPrefix(name, jobKey); !former {
			days = append(days, of+"/"+name)
		} else if c.Job == "" || c.Job == job {
			own, err := p.dirs(ctx, of+"/"+name)
			if err != nil {
				return nil, err
			}
			for _, date := range own {
				days = append(days, of+"/"+name+"/"+date)
			}
		}
	}
	first := dateKey + c.Since.UTC().Format(time.DateOnly)
	for _, dir := range days {
		date := path.Base(dir)
		if !strings.HasPrefix(date, dateKey) || !c.Since.IsZero() && date < first || !c.onDay(ctx, dir, lists) {
			continue
		}
		have, err := p.list(ctx, dir+"/")
		if err != nil {
			return nil, err
		}
		files = append(files, have...)
	}
	return files, nil
}

// onDay says whether a day's directory may have rows of the choice's job.
func (c Choice) onDay(ctx context.Context, dir string, lists *calendar) bool {
	if c.Job == "" || strings.Contains(dir, "/"+jobKey) {
		return true
	}
	d := lists.day(ctx, strings.TrimPrefix(path.Base(dir), dateKey))
	return d == nil || d.Open || d.Jobs[c.Job] != 0
}

// describing says that a statement may be about tables that it does not name. Taking too many costs time alone.
func describing(sql string) bool {
	return slices.ContainsFunc([]string{"show", "duckdb_", "information_schema"}, func(word string) bool {
		return strings.Contains(sql, word)
	})
}

// noJob is an error if a lake has no such job.
func noJob(ctx context.Context, p place, job string) error {
	names, open, err := jobsOf(ctx, p)
	if err != nil || open || slices.Contains(names, job) {
		return err
	}
	err = fmt.Errorf("there is no job %q", job)
	if len(names) == 0 {
		return remedy.Add(err, "the lake is empty")
	}
	return remedy.Add(err, "jobs in it: "+strings.Join(names[:min(len(names), 20)], ", "))
}

// viewsOf makes a view for every table; those that have no files are there and empty.
func viewsOf(ctx context.Context, p place, files map[string][]entry, root string, cache *rootdir.Dir,
	c Choice) ([]store.FileView, error) {
	var out []store.FileView
	for _, t := range table.All {
		schema, name, ok := strings.Cut(t.View, ".")
		if !ok {
			continue
		}
		v := store.FileView{Schema: schema, Name: name, Columns: columnsOf(t), Where: c.where(t)}
		for _, f := range files[t.Store] {
			local, err := p.local(ctx, f, cache)
			if err != nil {
				return nil, err
			}
			path := filepath.Join(root, filepath.FromSlash(f.name))
			if bad := sound(local); bad != nil {
				v.Odd = append(v.Odd, store.BadFile{Path: path, Why: fmt.Sprintf("%s: %.300v", path, bad)})
			} else {
				v.Files = append(v.Files, path)
			}
			local.Close()
		}
		out = append(out, v)
	}
	return out, nil
}

// where says in SQL which rows of a table are chosen.
func (c Choice) where(t *table.Table) string {
	var all []string
	for _, x := range [][2]string{{jobColumn, c.Job}, {"node", c.Node}} {
		if x[1] != "" {
			all = append(all, x[0]+" = '"+strings.ReplaceAll(x[1], "'", "''")+"'")
		}
	}
	if c.Rank != nil && slices.ContainsFunc(t.Columns, func(x table.Column) bool { return x.Name == "rank" }) {
		all = append(all, "rank = "+strconv.Itoa(*c.Rank))
	}
	return strings.Join(all, " AND ")
}

// columnsOf are a view's columns over a lake: job, node and rank, the session's own, and what prunes partitions. The
// job is a key where it stands in a file's path.
func columnsOf(t *table.Table) []store.FileColumn {
	out := []store.FileColumn{{Name: "job", Type: "VARCHAR", Key: true}, {Name: "node", Type: "VARCHAR"},
		{Name: "rank", Type: "INTEGER"}}
	for _, c := range t.Columns {
		if c.Name != "" && c.Name != "rank" {
			out = append(out, store.FileColumn{Name: c.Name, Type: c.Type})
		}
	}
	return append(out, store.FileColumn{Name: "date", Type: "VARCHAR", Key: true},
		store.FileColumn{Name: "hour", Type: "VARCHAR", Key: true})
}

// Query runs one reading statement and writes its result. It comes back in time also when the database does not: Close
// ends that.
func (t *Tables) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	if err := q.Check(); err != nil {
		return err
	}
	return t.cell.Within(ctx, q.Timeout, func(ctx context.Context) error { return t.cell.Query(ctx, q, w) })
}

// Tables describes the tables.
func (t *Tables) Tables(ctx context.Context, all bool) (list []model.Table, err error) {
	err = t.cell.Within(ctx, 0, func(ctx context.Context) (err error) {
		list, err = t.cell.Tables(ctx, all)
		return err
	})
	return list, err
}

// Close ends the process that answers.
func (t *Tables) Close() error { return t.cell.Close() }

// ask runs a statement of ours and has its answer read, as lines of JSON.
func (t *Tables) ask(ctx context.Context, sql string, read func(io.Reader) error) error {
	err := api.Through(ctx, func(ctx context.Context, w io.Writer) error {
		return t.Query(ctx, api.QueryRequest{SQL: sql, Format: "ndjson", Note: t.Note}, w)
	}, read)
	t.Note = nil // one question says it
	return err
}

// Compare judges the ranks of a job against each other.
func (t *Tables) Compare(ctx context.Context, job string) (skew.Report, error) {
	held := skew.NewHeld()
	err := t.ask(ctx, skew.Lake(job).Statement(), func(r io.Reader) error { return held.Add("", r) })
	if err != nil {
		return skew.Report{}, fmt.Errorf("compare the ranks: %w", err)
	}
	return held.Judge(), nil
}

// Jobs are the jobs of a lake, by name.
func (t *Tables) Jobs(ctx context.Context) (names []string, err error) {
	take := func(row struct {
		Job string `json:"job"`
	}) error {
		names = append(names, row.Job)
		return nil
	}
	err = t.ask(ctx, "SELECT DISTINCT job FROM python.steps ORDER BY 1",
		func(r io.Reader) error { return api.DecodeEach(r, take) })
	return names, err
}
