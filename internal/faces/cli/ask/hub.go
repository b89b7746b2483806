package ask

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/pattern"
	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/internal/fleet/lake"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/formats/table"
)

// hubLake is the rows that a hub keeps.
type hubLake struct {
	a      *app.App
	fleet  source.Fleet
	of     fanout.Select
	status hub.Status
}

// hubLake is the lake of the hub that is meant; nil where that keeps none, or the sessions are to be asked.
func (a *commands) hubLake(ctx context.Context) (*hubLake, error) {
	if a.Hub.Live {
		return nil, nil
	}
	s, err := a.Source()
	if err != nil {
		return nil, err
	}
	status, err := s.Fleet.Status(ctx)
	if err != nil || !status.Answers {
		return nil, err
	}
	return &hubLake{a.App, s.Fleet, s.Select, status}, nil
}

// Query asks the hub.
func (k *hubLake) Query(ctx context.Context, q api.QueryRequest, w io.Writer) error {
	door := k.fleet.Lake(k.of)
	defer door.Close()
	return door.Query(ctx, q, w)
}

// Close does nothing: the hub is left with the command's end.
func (k *hubLake) Close() error { return nil }

// fromHub is who answers a statement of many machines: the hub's lake if that has its tables, a Trino server over all
// of that, else each session.
func (a *commands) fromHub(ctx context.Context, o QueryOptions, q api.QueryRequest) (querier, error) {
	kept, err := a.hubLake(ctx)
	if err != nil {
		return nil, err
	}
	if kept != nil && inLake(q.SQL) {
		return kept.engine(o, q.SQL)
	}
	if o.ofLake != "" {
		return nil, app.Usage(remedy.Add(
			fmt.Errorf("query: --%s is about the hub's lake, and this asks the sessions", o.ofLake),
			"leave out --live, and name tables that the lake has: memgauge hub tables"))
	}
	list, err := a.Members(ctx)
	if err != nil {
		return nil, err
	}
	if one, err := a.Narrow(ctx); err != nil || one {
		return list[0].Target.Open(), err
	}
	if q.Format == string(render.Parquet) {
		return nil, app.Usage(remedy.Add(errors.New("query: parquet is written for one session"),
			"node=NAME says for which"))
	}
	return &gathered{a: a.App, members: list}, nil
}

// engine is who answers about the lake: the hub, for the part that is meant, or a Trino server over all of it.
func (k *hubLake) engine(o QueryOptions, sql string) (querier, error) {
	c, server, err := o.Lake.Far(sql, time.Now())
	if err != nil {
		return nil, err
	}
	if server != nil {
		if k.of != (fanout.Select{}) {
			return nil, app.Usage(remedy.Add(
				errors.New("query: Trino's tables are whole, job=, node= and rank= do not narrow them"),
				"say it in the statement: WHERE job = '…' AND rank = 7"))
		}
		return server, nil
	}
	if c.Job != "" && k.of.Job != "" && c.Job != k.of.Job {
		return nil, app.Usage(fmt.Errorf("query: job=%s and --job %s", k.of.Job, c.Job))
	}
	k.of.Job, k.of.Since = cmp.Or(k.of.Job, c.Job), c.Since
	return k, nil
}

var (
	word   = pattern.Of(`[a-z_][a-z0-9_]*`)
	quoted = pattern.Of(`'[^']*'|--[^\n]*`)
)

// inLake says whether a statement is about tables that nodes ship, and about no others. Words decide: a column that is
// called like a table of live sessions sends the question to the sessions, which have all tables.
func inLake(sql string) bool {
	words := word().FindAllString(quoted().ReplaceAllString(strings.ToLower(sql), " "), -1)
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

// told says how new the answer is, and which nodes have something that is not in it.
func (k *hubLake) told(error) {
	var absent []fanout.Missing
	now, newest := time.Now(), time.Time{}
	var last fanout.Node // the connected one whose rows came longest ago
	for _, n := range k.status.Nodes {
		if k.of.Node != "" && k.of.Node != n.Name || k.of.Job != "" && !slices.Contains(n.Jobs, k.of.Job) {
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
	plain.Fprintf(k.a.Stderr, "memgauge: %s; --live asks the sessions themselves\n", text)
	for _, trouble := range k.status.Trouble {
		plain.Fprintf(k.a.Stderr, "memgauge: rows wait: %s\n", trouble)
	}
	k.a.Miss(absent)
}

// lacks says why the lake's answer is without some of a node's rows.
func lacks(n fanout.Node) string {
	switch {
	case n.Ended && n.Waits == 0:
		return ""
	case !n.Up:
		return "it is not connected, the answer has what it sent before"
	case n.Kept == 0 && n.Sessions > 0:
		return "it is connected, and the lake has no row of it yet"
	case n.Waits > 0 && n.Behind > usualLag.Seconds():
		return "its rows have waited there for " + units.Duration(time.Duration(n.Behind)*time.Second).String()
	}
	return ""
}
