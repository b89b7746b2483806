package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/cell"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/record/store"
)

// CellKind is the kind of the cells that answer for a lake.
const CellKind = "lake"

// task is what such a cell is told: the files of each table, all below a directory; or work on files of the writer's.
type task struct {
	Root  string
	Views []store.FileView
	Work  *work `json:",omitempty"`
}

// Inside opens the tables in the cell's own process, or is ready for the work.
func Inside(ctx context.Context, text []byte) (http.Handler, error) {
	t, err := cell.Task[task](text)
	if err != nil {
		return nil, err
	}
	if t.Work != nil {
		return api.Handler(worker{work: *t.Work}, api.MayQuery, nil), nil
	}
	i := &inside{task: t}
	if err := i.open(ctx); err != nil {
		return nil, err
	}
	return api.Handler(i, api.MayQuery, nil), nil
}

func (i *inside) open(ctx context.Context) error {
	db, err := store.OpenFiles(ctx, i.task.Root, i.task.Views, store.Options{TempDir: os.TempDir()})
	if err != nil {
		return err
	}
	i.db, i.Service = db, &service.Service{Open: service.Opened(db), Note: leftOut(i.task.Views)}
	return nil
}

// maxNamed bounds the files that a note names: it travels in a header.
const maxNamed = 20

// leftOut says which files the answers lack; "" for none.
func leftOut(views []store.FileView) string {
	var why []string
	for _, v := range views {
		for _, f := range v.Odd {
			why = append(why, f.Why)
		}
	}
	if len(why) == 0 {
		return ""
	}
	text := "left out of the answer: " + strings.Join(why[:min(len(why), maxNamed)], "; ")
	if more := len(why) - maxNamed; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// inside is the lake as the session of the cell's handler.
type inside struct {
	*service.Service
	db    *store.DB
	task  task
	asked sync.Mutex // a question may have the tables opened anew
}

// maxBad bounds the files that one question finds to be bad and leaves out.
const maxBad = 16

// Query answers a question. A file that turns out to be bad while it is read is left out, and the note says so: it lies
// there until its hour is merged, and is to fail no question. What was answered already can't be taken back.
func (i *inside) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	i.asked.Lock()
	defer i.asked.Unlock()
	for found := 0; ; found++ {
		first := &beginning{to: w}
		err := i.Service.Query(ctx, q, first)
		if err == nil {
			return first.pass()
		}
		if first.passed || found == maxBad || ctx.Err() != nil || !i.leaveOut(ctx, err) {
			return err
		}
	}
}

var namedFile = pattern.Of(`Parquet file "([^"]+)"`)

// leaveOut opens the tables without the file that an error names, if that can't be read by itself either: the words of
// an error may be those of a row.
func (i *inside) leaveOut(ctx context.Context, err error) bool {
	named := namedFile().FindStringSubmatch(err.Error())
	if named == nil {
		return false
	}
	found := false
	for k := range i.task.Views {
		v := &i.task.Views[k]
		at := slices.Index(v.Files, named[1])
		if at < 0 {
			continue
		}
		if bad := store.CheckParquet(ctx, named[1], v.Columns, nil, os.TempDir()); errors.Is(bad, store.ErrBadFile) {
			v.Files = slices.Delete(slices.Clone(v.Files), at, at+1)
			v.Odd, found = append(v.Odd, store.BadFile{Path: named[1], Why: bad.Error()}), true
		}
	}
	if !found {
		return false
	}
	before := i.db
	if i.open(ctx) != nil {
		return false
	}
	_ = before.Close() // it has answered nothing
	return true
}

// beginning keeps the first bytes of an answer back, so that another one can take its place.
type beginning struct {
	to     io.Writer
	kept   []byte
	passed bool
}

const maxKept = 4 << 20

func (b *beginning) Write(p []byte) (int, error) {
	if !b.passed && len(b.kept)+len(p) <= maxKept {
		b.kept = append(b.kept, p...)
		return len(p), nil
	}
	if err := b.pass(); err != nil {
		return 0, err
	}
	return b.to.Write(p)
}

// pass hands over what was kept.
func (b *beginning) pass() error {
	kept := b.kept
	b.kept, b.passed = nil, true
	_, err := b.to.Write(kept)
	return err
}

// docs are the lines of the columns that a lake's tables have besides those of a session's.
var docs = map[string]string{"job": "name of the job", "node": "name of the machine",
	"rank": "rank in the distributed job; NULL while unknown, and of what has none",
	"date": "day (UTC) of ts, as 2026-11-20; a condition on it spares reading other days",
	"hour": "hour (UTC) of ts, from 00 to 23; likewise"}

// Tables describes the tables.
func (i *inside) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	list, err := i.Service.Tables(ctx, all)
	list = slices.DeleteFunc(list, func(x model.Table) bool { return x.Schema == "main" })
	for i := range list {
		for k := range list[i].Columns {
			if c := &list[i].Columns[k]; docs[c.Name] != "" {
				c.Doc = docs[c.Name]
			}
		}
	}
	return list, err
}
