package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/record/store"
)

// Files of a lake may come from anybody, and a few bytes of Parquet can ask for any memory and time. So a cell reads
// them for the writer: it has the open files, and a directory of its own in the stage.

// work is what a cell does for the writer: one merge, or to check files.
type work struct {
	Merge   *store.Merge
	Columns []store.FileColumn // that a checked file should have
	Claims  []*store.Claim     // of the checked files
}

// workTime bounds a merge and the check of one file: an hour of a thousand nodes takes a minute or two. It is a
// variable for tests.
var workTime = 10 * time.Minute

// worker does the work in the cell's own process. The statement is the number of the file that is to be checked.
type worker struct {
	api.Session
	work work
}

// verdict is what came of a work; Why is "" where all is well.
type verdict struct {
	Why    string
	Bad    bool // store.ErrBadFile
	Memory bool // store.ErrMemory

	Columns []string // of a bad file: those that can't be read where the others can
}

// badFile is a file that can't be read as it is.
type badFile struct {
	error
	columns []string // as verdict's
}

func (b badFile) Unwrap() error { return b.error }

// Query does the work and writes its verdict.
func (k worker) Query(ctx context.Context, q api.QueryRequest, out io.Writer) (err error) {
	if m := k.work.Merge; m != nil {
		m.TempDir, m.To = os.TempDir(), os.TempDir()+"/"+mergedName
		err = store.MergeParquet(ctx, *m)
	} else {
		var file int
		if file, err = strconv.Atoi(q.SQL); err == nil {
			err = store.CheckParquet(ctx, cell.File(file), k.work.Columns, k.work.Claims[file], os.TempDir())
		}
	}
	v := verdict{Bad: errors.Is(err, store.ErrBadFile), Memory: errors.Is(err, store.ErrMemory)}
	if file, e := strconv.Atoi(q.SQL); v.Bad && e == nil && k.work.Merge == nil {
		// without them the file is set aside as a whole
		v.Columns, _ = store.BadColumns(ctx, cell.File(file), k.work.Columns, os.TempDir())
	}
	if err != nil {
		v.Why = fmt.Sprintf("%.1000v", err)
	}
	return json.NewEncoder(out).Encode(v)
}

// errBeyond marks work that needs more than a cell may take.
var errBeyond = errors.New("it takes more memory or time than it may")

// ask has a cell do its work, on one file where it checks.
func ask(ctx context.Context, c *cell.Cell, file int) error {
	bound, cancel := context.WithTimeoutCause(ctx, workTime, errBeyond)
	defer cancel()
	var out bytes.Buffer
	err := c.Query(bound, api.QueryRequest{SQL: strconv.Itoa(file), Format: "csv"}, &out)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, api.ErrBroken):
		if why := c.Why(err); c.Gone() && !c.Killed() {
			return fmt.Errorf("%w: %w", errBeyond, why)
		}
		return err
	default:
		return err
	}
	var v verdict
	if err := json.Unmarshal(out.Bytes(), &v); err != nil {
		return fmt.Errorf("read what a cell found: %w", err)
	}
	switch {
	case v.Why == "":
		return nil
	case v.Memory:
		return fmt.Errorf("%w: %s", errBeyond, v.Why)
	case v.Bad:
		return badFile{fmt.Errorf("%w: %s", store.ErrBadFile, v.Why), v.Columns}
	}
	return errors.New(v.Why)
}

func filesOf(from []source) (list []*os.File) {
	for _, f := range from {
		list = append(list, f.file)
	}
	return list
}

// besides is what a merge takes besides DuckDB's memory and as much again for what single functions make, in bytes: the
// program itself, Go, and the threads' stacks and the pages that they write.
const besides = int64(768 * units.MiB)

// mergeApart merges in a cell; the file lies in the stage then.
func (w *Writer) mergeApart(ctx context.Context, m store.Merge, from []source) error {
	return w.mergeInto(ctx, m, from, w.place.stage(), mergedName)
}

// mergeInto merges in a cell, to a file of that name.
func (w *Writer) mergeInto(ctx context.Context, m store.Merge, from []source, to *rootdir.Dir, name string) error {
	for i, f := range from {
		one := store.MergeSource{Path: cell.File(i), Where: f.where}
		if m.Widest == 0 { // all of the file is looked at
			one.Claim = f.claim.claim()
		}
		m.From = append(m.From, one)
	}
	dir, err := w.place.stage().Temp("merge-")
	if err != nil {
		return err
	}
	defer dir.Discard()
	c, err := cell.Start(cell.Spec{Kind: CellKind, Task: task{Work: &work{Merge: &m}}, Files: filesOf(from), Work: dir,
		Memory: 2*m.MemoryLimit + besides, File: m.Spill()})
	if err != nil {
		return err
	}
	err = ask(ctx, c, 0)
	if e := c.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	return dir.Give(mergedName, to, name)
}

// checker checks files in a cell, and those that need too much there in one of their own.
type checker struct {
	spec cell.Spec
	c    *cell.Cell
	used bool
}

// check is store.CheckParquet of a file. One that alone takes more than a cell may is bad.
func (k *checker) check(ctx context.Context, file int) error {
	for {
		if k.c == nil {
			c, err := cell.Start(k.spec)
			if err != nil {
				return err
			}
			k.c, k.used = c, false
		}
		err := ask(ctx, k.c, file)
		alone := !k.used
		k.used = true
		if err == nil || errors.Is(err, store.ErrBadFile) {
			return err
		}
		k.close()
		if !errors.Is(err, errBeyond) {
			return err
		}
		if alone {
			return fmt.Errorf("%w: %w", store.ErrBadFile, err)
		}
	}
}

func (k *checker) close() {
	if k.c != nil {
		_ = k.c.Close()
	}
	k.c = nil
}
