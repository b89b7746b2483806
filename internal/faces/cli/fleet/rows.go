package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	askcli "github.com/memgauge/memgauge/internal/faces/cli/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/fleet/node"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// lakeSlots bounds how many questions a hub's lake answers at a time: each is a process that may take 1.25 GiB.
const lakeSlots = 2

// lakeRows answers for the lake of a hub.
func lakeRows(location string) node.Rows {
	room := lake.NewRoom(lakeSlots)
	return func(of fanout.Select, rights api.Rights) http.Handler {
		return lake.Handler(lake.Choice{Location: location, Job: of.Job, Node: of.Node, Rank: of.Rank, Since: of.Since},
			room, rights)
	}
}

// fromLake lets the hub's lake answer, if it has what is asked for; taken says that it has. Otherwise each session is
// asked.
func (q *question) fromLake(ctx context.Context, asker *fanout.Asker) (taken bool, err error) {
	command := q.command()
	if q.Hub.Live || command != "query" && command != "tables" {
		return false, nil
	}
	s, err := q.hubStatus(ctx, asker)
	if err != nil || !s.Answers {
		return false, err
	}
	if command == "tables" {
		err = q.lakeTables(ctx, asker)
	} else if taken, err = q.lakeQuery(ctx, asker); !taken || q.byTrino {
		return taken, err
	}
	absent := q.tellLake(s)
	return true, q.strictly(absent, err)
}

// hubStatus asks the hub how it is.
func (q *question) hubStatus(ctx context.Context, asker *fanout.Asker) (s hub.Status, err error) {
	ctx, cancel := context.WithTimeout(ctx, q.Hub.Wait)
	defer cancel()
	b, err := asker.Request(ctx, "status", nil)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		return s, fmt.Errorf("ask the hub: %w", err)
	}
	if s.Total == 0 { // a hub of before tells of all its nodes
		s.Total = len(s.Nodes)
		for _, n := range s.Nodes {
			if n.Up {
				s.Up++
			}
		}
	}
	if s.Total > len(s.Nodes) {
		s.Nodes, err = asker.Nodes(ctx)
	}
	return s, err
}

// lakeTables has the command list the lake's tables.
func (q *question) lakeTables(ctx context.Context, asker *fanout.Asker) error {
	sub := q.Again()
	t := ask.Far(fanout.LakeSession().About, -1, func() api.Session { return asker.Lake(q.sel) })
	sub.Far = &t
	return sub.Execute(ctx, q.line)
}

// lakeQuery runs the statement over the lake if that has its tables.
func (q *question) lakeQuery(ctx context.Context, asker *fanout.Asker) (taken bool, err error) {
	err = q.withQuery(func(o askcli.QueryOptions, sql string) error {
		req, err := askcli.QueryRequest(ctx, q.App, o, sql)
		if err != nil {
			return err
		}
		if sql == "-" { // for whoever reads it next
			q.Stdin = strings.NewReader(req.SQL)
		}
		if !inLake(req.SQL) {
			return nil
		}
		taken = true
		from, err := q.engine(asker, o, req.SQL)
		if err != nil {
			return err
		}
		req.Note = func(text string) { plain.Fprintf(q.Stderr, "memgauge: %s\n", text) }
		ctx, cancel := o.Limit(ctx)
		defer cancel()
		out, err := askcli.QuerySink(q.App, o.Output)
		if err != nil {
			return fmt.Errorf("query: %w", err)
		}
		defer out.Discard()
		return askcli.RunQuery(ctx, from, req, out)
	})
	return taken, err
}

// engine is who answers about the lake: the hub, for the part that is meant, or a Trino server over all of it.
func (q *question) engine(asker *fanout.Asker, o askcli.QueryOptions, sql string) (api.Querier, error) {
	c, server, err := o.Lake.Far(sql, time.Now())
	if err != nil {
		return nil, err
	}
	if server != nil {
		if q.sel != (fanout.Select{}) {
			return nil, app.Usage(remedy.Add(
				errors.New("query: Trino's tables are whole, job=, node= and rank= do not narrow them"),
				"say it in the statement: WHERE job = '…' AND rank = 7"))
		}
		q.byTrino = true
		return server, nil
	}
	if c.Job != "" && q.sel.Job != "" && c.Job != q.sel.Job {
		return nil, app.Usage(fmt.Errorf("query: job=%s and --job %s", q.sel.Job, c.Job))
	}
	q.sel.Job, q.sel.Since = cmp.Or(q.sel.Job, c.Job), c.Since
	return asker.Lake(q.sel), nil
}

// withQuery runs the statement with the command's flags.
func (q *question) withQuery(run func(o askcli.QueryOptions, sql string) error) error {
	var o askcli.QueryOptions
	c := &cobra.Command{Use: "query"}
	o.AddFlags(c)
	o.Lake.AddFlags(c.Flags())
	q.given(func(f *pflag.Flag) { _ = c.Flags().Set(f.Name, f.Value.String()) }) // as they were
	return run(o, q.args[0])
}

var (
	word   = regexp.MustCompile(`[a-z_][a-z0-9_]*`)
	quoted = regexp.MustCompile(`'[^']*'|--[^\n]*`)
)

// inLake says whether a statement is about tables that nodes ship, and about no others. Words decide: a column that is
// called like a table of live sessions sends the question to the sessions, which have all tables.
func inLake(sql string) bool {
	words := word.FindAllString(quoted.ReplaceAllString(strings.ToLower(sql), " "), -1)
	shipped := false
	for _, t := range table.All {
		_, bare, named := strings.Cut(t.View, ".")
		if !named || !slices.Contains(words, bare) {
			continue
		}
		if !t.Ships() {
			return false
		}
		shipped = true
	}
	return shipped
}

// usualLag is how old rows in the lake may be where nothing is wrong: nodes ship every 30 s, the hub flushes every 60.
const usualLag = 30*time.Second + lake.FlushEvery

// tellLake says how new the answer is, and which nodes have something that is not in it.
func (q *question) tellLake(s hub.Status) (absent []fanout.Missing) {
	now, newest := time.Now(), time.Time{}
	var last fanout.Node // the connected one whose rows came longest ago
	for _, n := range s.Nodes {
		if q.sel.Node != "" && q.sel.Node != n.Name || q.sel.Job != "" && !slices.Contains(n.Jobs, q.sel.Job) {
			continue
		}
		if n.KeptAt.After(newest) {
			newest = n.KeptAt
		}
		if n.Up && n.Sessions > 0 && n.Kept > 0 && (last.Name == "" || n.KeptAt.Before(last.KeptAt)) {
			last = n
		}
		if why := lacks(n); why != "" {
			absent = append(absent, fanout.Missing{Node: n.Name, Seen: n.Seen, Why: why})
		}
	}
	text := "from the hub's lake"
	if !newest.IsZero() {
		text += ", where rows came last " + units.Age(newest, now)
	}
	if last.Name != "" && now.Sub(last.KeptAt) > usualLag {
		text += ", of node " + last.Name + " " + units.Age(last.KeptAt, now)
	}
	plain.Fprintf(q.Stderr, "memgauge: %s; --live asks the sessions themselves\n", text)
	for _, trouble := range s.Trouble {
		plain.Fprintf(q.Stderr, "memgauge: rows wait: %s\n", trouble)
	}
	q.tell(absent)
	return absent
}

// lacks says why the lake's answer is without some of a node's rows.
func lacks(n fanout.Node) string {
	switch {
	case !n.Up:
		return "it is not connected, the answer has what it sent before"
	case n.Kept == 0 && n.Sessions > 0:
		return "it is connected, and the lake has no row of it yet"
	case n.Waits > 0 && n.Behind > usualLag.Seconds():
		return "its rows have waited there for " + units.Duration(time.Duration(n.Behind)*time.Second).String()
	}
	return ""
}
