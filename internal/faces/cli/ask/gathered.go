package ask

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

// gathered runs a statement in every session, and puts job and node before each row.
type gathered struct {
	a       *app.App
	members []source.Member
}

// Close does nothing: a session's door is closed when it has answered.
func (gathered) Close() error { return nil }

// Query asks all sessions and joins what they answer, in their order.
func (g gathered) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	answers := source.Ask(ctx, g.members, func(ctx context.Context, m source.Member) (*bytes.Buffer, error) {
		door := m.Target.Open()
		defer door.Close()
		var text bytes.Buffer
		return &text, door.Query(ctx, api.QueryRequest{SQL: q.SQL, Format: "ndjson", Timeout: q.Timeout},
			source.AtMost(&text))
	})
	j := &joined{at: map[string]int{}}
	for _, s := range answers {
		err := s.Err
		if err == nil {
			err = j.add(s.Session, s.Value)
		}
		if err != nil {
			return fmt.Errorf("node %s: %w", s.Node, err)
		}
	}
	return render.Write(w, j.listing(), render.Format(q.Format), render.Options{Width: q.Width, Plain: q.Plain})
}

func (g gathered) told(err error) {
	if err == nil {
		fmt.Fprintf(g.a.Stderr, "memgauge: %s answered, each for itself: job and node say which\n",
			doc.Plural(len(g.members), "session"))
	}
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
