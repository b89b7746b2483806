package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	askcli "github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

// maxAnswer bounds what one session may answer to a question to all of them, in bytes.
const maxAnswer = 64 << 20

var errLarge = errors.New("an answer of more than 64 MiB")

// query runs a statement in every session and puts job and node before each row.
func (q *question) query(ctx context.Context, asker *fanout.Asker, list []fanout.Session) error {
	return q.withQuery(func(o askcli.QueryOptions, sql string) error {
		return q.queryAll(ctx, asker, list, o, sql)
	})
}

func (q *question) queryAll(ctx context.Context, asker *fanout.Asker, list []fanout.Session, o askcli.QueryOptions,
	sql string) error {
	if flag := o.Lake.Given(q.c.Flags()); flag != "" {
		return app.Usage(remedy.Add(
			fmt.Errorf("query: --%s is about the hub's lake, and this asks the sessions", flag),
			"leave out --live, and name tables that the lake has: memgauge hub tables"))
	}
	req, err := askcli.QueryRequest(ctx, q.App, o, sql)
	if err != nil {
		return err
	}
	if req.Format == string(render.Parquet) {
		return app.Usage(remedy.Add(errors.New("query: parquet is written for one session"),
			"node=NAME says for which"))
	}
	ctx, cancel := o.Limit(ctx)
	defer cancel()
	rows, err := gatherRows(ctx, asker, list, req)
	if err != nil {
		return askcli.WhyCut(ctx, err)
	}
	out, err := askcli.QuerySink(q.App, o.Output)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer out.Discard()
	err = render.Write(out, rows, render.Format(req.Format), render.Options{Width: req.Width, Plain: req.Plain})
	if err == nil {
		err = out.Commit()
	}
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	fmt.Fprintf(q.Stderr, "memgauge: %d sessions answered, each for itself: job and node say which\n", len(list))
	return nil
}

// gatherRows asks all sessions and joins what they answer, in their order.
func gatherRows(ctx context.Context, asker *fanout.Asker, list []fanout.Session, req api.QueryRequest) (*doc.Listing,
	error) {
	texts, failures := make([]bytes.Buffer, len(list)), make([]error, len(list))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, s := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			door := asker.Open(s)
			defer door.Close()
			failures[i] = door.Query(ctx, api.QueryRequest{SQL: req.SQL, Format: "ndjson", Timeout: req.Timeout},
				&atMost{&texts[i], maxAnswer})
		})
	}
	all.Wait()
	j := &joined{at: map[string]int{}}
	for i, s := range list {
		if failures[i] != nil {
			return nil, fmt.Errorf("node %s: %w", s.Node, failures[i])
		}
		if err := j.add(s, &texts[i]); err != nil {
			return nil, fmt.Errorf("node %s: %w", s.Node, err)
		}
	}
	return j.listing(), nil
}

// atMost fails what is written beyond a bound.
type atMost struct {
	io.Writer
	left int
}

func (w *atMost) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		return 0, errLarge
	}
	return w.Writer.Write(b)
}

// joined are the rows of several answers under the names of all their columns.
type joined struct {
	names []string
	at    map[string]int
	rows  [][]any
}

func (j *joined) add(s fanout.Session, lines io.Reader) error {
	for dec := json.NewDecoder(lines); ; {
		row := []any{s.Job, s.Node}
		names, values, err := doc.Members(dec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		for i, name := range names {
			if _, known := j.at[name]; !known {
				j.at[name] = len(j.names)
				j.names = append(j.names, name)
			}
			for len(row) < 2+len(j.names) {
				row = append(row, nil)
			}
			row[2+j.at[name]] = plainValue(values[i])
		}
		j.rows = append(j.rows, row)
	}
}

// plainValue gives numbers their exact type again; what is nested stays text.
func plainValue(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil && !strings.ContainsAny(v.String(), ".eE") {
			return n
		}
		f, _ := v.Float64()
		return f
	case map[string]any, []any:
		text, _ := json.Marshal(v)
		return string(text)
	}
	return v
}

// listing names the columns that were asked for job or node in another way than ours.
func (j *joined) listing() *doc.Listing {
	l := &doc.Listing{Rows: j.rows}
	front := []string{"job", "node"}
	for i, name := range front {
		if slices.Contains(j.names, name) {
			front[i] = "its_" + name
		}
	}
	for i, name := range append(front, j.names...) {
		l.Head = append(l.Head, j.column(i, name))
	}
	for i, row := range l.Rows {
		for len(row) < len(l.Head) {
			row = append(row, nil)
		}
		l.Rows[i] = row
	}
	return l
}

// column is a number's where all its values are.
func (j *joined) column(i int, name string) model.Column {
	seen, fraction := false, false
	for _, row := range j.rows {
		if i >= len(row) || row[i] == nil {
			continue
		}
		switch row[i].(type) {
		case int64:
			seen = true
		case float64:
			seen, fraction = true, true
		default:
			return doc.Text(name)
		}
	}
	switch {
	case fraction:
		return model.Column{Name: name, Type: "DOUBLE"}
	case seen:
		return doc.Number(name)
	}
	return doc.Text(name)
}
