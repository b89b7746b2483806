package ask

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
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
	shown   int // sessions whose rows are
}

// Close does nothing: a session's door is closed when it has answered.
func (*gathered) Close() error { return nil }

// Query asks all sessions and joins what they answer, in their order.
func (g *gathered) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	ask := func(ctx context.Context, m source.Member) (*bytes.Buffer, error) {
		door := m.Target.Open()
		defer door.Close()
		var text bytes.Buffer
		return &text, door.Query(ctx, api.QueryRequest{SQL: q.SQL, Format: "ndjson", Timeout: q.Timeout},
			source.AtMost(ctx, &text))
	}
	answers := source.Ask(ctx, g.members, source.NodeTime, ask)
	j := &joined{}
	var failed []error
	for _, s := range answers {
		err := s.Err
		if err == nil {
			err = j.add(s.Session, s.Value)
		}
		if err != nil {
			failed = append(failed, err)
			g.miss(s.Node, err.Error())
		}
	}
	if len(failed) > 0 && len(failed) == len(answers) {
		return fmt.Errorf("node %s: %w", answers[0].Node, failed[0])
	}
	for _, node := range j.fit(maxCells) {
		g.miss(node, "its rows have more columns, or are more, than there is room for")
	}
	g.shown = len(j.parts)
	return render.Write(w, j.listing(), render.Format(q.Format), render.Options{Width: q.Width, Plain: q.Plain})
}

// miss names a node whose sessions, or one of them, have given no rows: the others' are shown.
func (g *gathered) miss(node, why string) {
	g.a.Miss([]fanout.Missing{{Node: node, Seen: time.Now(), Why: plain.Line(why)}})
}

func (g *gathered) told(err error) {
	if err == nil {
		plain.Fprintf(g.a.Stderr, "memgauge: %s answered, each for itself: job and node say which\n",
			doc.Plural(g.shown, "session"))
	}
}

// joined are the rows of several answers under the names of all their columns.
type joined struct{ parts []part }

// part is what one session has answered.
type part struct {
	job, node string
	names     []string
	rows      [][]any
}

// maxCells bounds the cells of all rows under all names, each of 16 bytes: a node may send a million names, of which
// every row of the others would have a cell.
const maxCells = 64 << 20

var errColumns = errors.New("read the answer: its rows differ in their columns")

// add reads the rows of a session, all of them or none.
func (j *joined) add(s fanout.Session, lines io.Reader) error {
	p := part{job: s.Job, node: s.Node}
	for dec := json.NewDecoder(lines); ; {
		names, values, err := doc.Members(dec)
		if errors.Is(err, io.EOF) {
			j.parts = append(j.parts, p)
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the answer: %w", err)
		}
		if p.rows == nil {
			p.names = names
		}
		if !slices.Equal(names, p.names) {
			return errColumns
		}
		for i, v := range values {
			values[i] = plainValue(v)
		}
		p.rows = append(p.rows, values)
	}
}

// fit leaves out nodes until the cells of all are no more than most: first that whose session has most names, and of
// equals that with most rows.
func (j *joined) fit(most int) (out []string) {
	type share struct {
		node        string
		names, rows int
	}
	for {
		rows, names, of := 0, map[string]bool{}, map[string]*share{}
		worst := &share{}
		for _, p := range j.parts {
			one := of[p.node]
			if one == nil {
				one = &share{node: p.node}
				of[p.node] = one
			}
			rows, one.rows = rows+len(p.rows), one.rows+len(p.rows)
			one.names = max(one.names, len(p.names))
			for _, name := range p.names {
				names[name] = true
			}
			if cmp.Or(one.names-worst.names, one.rows-worst.rows) > 0 {
				worst = one
			}
		}
		if rows*(2+len(names)) <= most {
			return out
		}
		out = append(out, worst.node)
		j.parts = slices.DeleteFunc(j.parts, func(p part) bool { return p.node == worst.node })
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
	case json.RawMessage:
		var text bytes.Buffer
		if json.Compact(&text, v) != nil {
			return string(v)
		}
		return text.String()
	}
	return v
}

// listing names the columns that were asked for job or node in another way than ours.
func (j *joined) listing() *doc.Listing {
	var names []string
	at := map[string]int{}
	for _, p := range j.parts {
		for _, name := range p.names {
			if _, known := at[name]; !known {
				at[name] = len(names)
				names = append(names, name)
			}
		}
	}
	l := &doc.Listing{}
	for _, p := range j.parts {
		for _, values := range p.rows {
			row := make([]any, 2+len(names))
			row[0], row[1] = p.job, p.node
			for i, v := range values {
				row[2+at[p.names[i]]] = v
			}
			l.Rows = append(l.Rows, row)
		}
	}
	front := []string{"job", "node"}
	for i, name := range front {
		if slices.Contains(names, name) {
			front[i] = "its_" + name
		}
	}
	for i, name := range append(front, names...) {
		l.Head = append(l.Head, column(l.Rows, i, name))
	}
	return l
}

// column is a number's where all its values are.
func column(rows [][]any, i int, name string) model.Column {
	seen, fraction := false, false
	for _, row := range rows {
		if row[i] == nil {
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
