package fleet

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/web"
)

// web serves the sessions of a job to a browser, its ranks beside each other.
func (q *question) web(ctx context.Context, asker *fanout.Asker, list []fanout.Session) error {
	f := &farSessions{asker: asker, sel: q.sel, known: map[string]fanout.Session{}}
	f.keep(list)
	sub := q.Again()
	sub.Job = &app.Job{Name: cmp.Or(q.sel.Job, "hub"), Sessions: f, Members: f.members}
	root := sub.RootCommand()
	root.SetArgs(q.args)
	return root.ExecuteContext(ctx)
}

// farSessions are those of a selection, for a page.
type farSessions struct {
	asker *fanout.Asker
	sel   fanout.Select
	mu    sync.Mutex
	known map[string]fanout.Session // by id, as they were last heard of
}

func (f *farSessions) keep(list []fanout.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range list {
		f.known[s.About.ID] = s
	}
}

func (f *farSessions) find(ctx context.Context) ([]fanout.Session, []fanout.Missing, error) {
	list, missing, err := f.asker.Sessions(ctx, f.sel)
	f.keep(list)
	return list, missing, err
}

// List describes the sessions.
func (f *farSessions) List(ctx context.Context) (out []api.Listed, left []error, err error) {
	list, missing, err := f.find(ctx)
	for _, s := range list {
		out = append(out, api.Listed{ID: s.About.ID, Name: s.Node + ": " + s.About.Name, Dir: s.About.Dir, PIDs: s.PIDs,
			Ranks: s.Ranks, Command: s.About.Command, Started: s.About.Started, State: s.State, Rows: s.Rows,
			DiskBytes: s.Disk})
	}
	for _, m := range missing {
		left = append(left, fmt.Errorf("node %s is missing: %s", m.Node, m.Why))
	}
	return out, left, err
}

// Open makes the door to a session far away.
func (f *farSessions) Open(ctx context.Context, id string) (api.Session, error) {
	f.mu.Lock()
	s, ok := f.known[id]
	f.mu.Unlock()
	if !ok {
		return nil, ask.ErrNone
	}
	return f.asker.Open(s), nil
}

func (f *farSessions) members(ctx context.Context) (list []web.Member, missing []string, err error) {
	found, gone, err := f.find(ctx)
	if len(found) == 0 { // a job that is over is looked at as it was
		f.mu.Lock()
		for _, s := range f.known {
			found = append(found, s)
		}
		f.mu.Unlock()
	}
	for _, s := range found {
		list = append(list, web.Member{ID: s.About.ID, Node: s.Node})
	}
	for _, m := range gone {
		missing = append(missing, fmt.Sprintf("%s: %s", m.Node, m.Why))
	}
	return list, missing, err
}
