package lake

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/cell"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/service"
	"github.com/memgauge/memgauge/internal/store"
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
	db, err := store.OpenFiles(ctx, t.Root, t.Views, store.Options{TempDir: os.TempDir()})
	if err != nil {
		return nil, err
	}
	rows := &service.Service{DB: db, Note: leftOut(t.Views)}
	return api.Handler(inside{rows}, api.MayQuery, nil), nil
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
type inside struct{ *service.Service }

// docs are the lines of the columns that a lake's tables have besides those of a session's.
var docs = map[string]string{"job": "name of the job", "node": "name of the machine",
	"rank": "rank in the distributed job; NULL while unknown, and of what has none",
	"date": "day (UTC) of ts, as 2026-11-20; a condition on it spares reading other days",
	"hour": "hour (UTC) of ts, from 00 to 23; likewise"}

// Tables describes the tables.
func (i inside) Tables(ctx context.Context, all bool) ([]model.Table, error) {
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
