package watch

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// farSessions are those of a selection, for a page. A page knows each by its node and its id: another node may tell of
// the same one.
type farSessions struct {
	from  *source.Source
	mu    sync.Mutex
	known map[string]map[string]heard // by node and id, as they were last heard of
	round int                         // lists that were taken
}

func (a *commands) farSessions(ctx context.Context) (*farSessions, error) {
	s, err := a.Source()
	if err != nil {
		return nil, err
	}
	list, err := a.Members(ctx)
	if err != nil {
		return nil, err
	}
	f := &farSessions{from: s, known: map[string]map[string]heard{}}
	first := make([]fanout.Session, len(list))
	for i, m := range list {
		first[i] = m.Session
	}
	f.keep(first)
	return f, nil
}

type heard struct {
	fanout.Session
	round int
}

// maxKnown bounds the sessions of one node that are remembered: those that it tells of at once are no more.
const maxKnown = 1 << 10

// keyOf is a session's id for a page. No node's name has the sign between them.
func keyOf(s fanout.Session) string { return s.Node + "~" + s.About.ID }

func (f *farSessions) keep(list []fanout.Session) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.round++
	for _, s := range list {
		if f.known[s.Node] == nil {
			f.known[s.Node] = map[string]heard{}
		}
		f.known[s.Node][s.About.ID] = heard{s, f.round}
	}
	for _, of := range f.known {
		forget(of, f.round)
	}
}

// forget lets go of those that were not heard of in the newest round where a node has had too many.
func forget(of map[string]heard, round int) {
	if len(of) <= maxKnown {
		return
	}
	for id, h := range of {
		if h.round != round {
			delete(of, id)
		}
	}
}

func (f *farSessions) find(ctx context.Context) ([]fanout.Session, []fanout.Missing, error) {
	list, missing, err := f.from.Fleet.Sessions(ctx, f.from.Select)
	f.keep(list)
	return list, missing, err
}

// List describes the sessions.
func (f *farSessions) List(ctx context.Context) (out []api.Listed, left []error, err error) {
	list, missing, err := f.find(ctx)
	for _, s := range list {
		out = append(out, api.Listed{ID: keyOf(s), Name: s.Node + ": " + s.About.Name, Dir: s.About.Dir, PIDs: s.PIDs,
			Ranks: s.Ranks, Command: s.About.Command, Started: s.About.Started, State: s.State, Rows: s.Rows,
			DiskBytes: s.Disk, Live: s.About.Live})
	}
	for _, m := range missing {
		left = append(left, fmt.Errorf("node %s is missing: %s", m.Node, m.Why))
	}
	return out, left, err
}

// Open makes the door to a session far away.
func (f *farSessions) Open(ctx context.Context, key string) (api.Session, error) {
	node, id, _ := strings.Cut(key, "~")
	f.mu.Lock()
	s, ok := f.known[node][id]
	f.mu.Unlock()
	if !ok {
		return nil, ask.ErrNone
	}
	return keyed{f.from.Fleet.Open(s.Session), key}, nil
}

// keyed is a session that says a page's id for it.
type keyed struct {
	api.Session
	key string
}

func (k keyed) About(ctx context.Context) (api.About, error) {
	about, err := k.Session.About(ctx)
	about.ID = k.key
	return about, err
}

func (f *farSessions) members(ctx context.Context) (list []web.Member, missing []string, err error) {
	found, gone, err := f.find(ctx)
	if len(found) == 0 { // a job that is over is looked at as it was
		f.mu.Lock()
		for _, of := range f.known {
			for _, h := range of {
				found = append(found, h.Session)
			}
		}
		f.mu.Unlock()
	}
	for _, s := range found {
		list = append(list, web.Member{ID: keyOf(s), Node: s.Node})
	}
	for _, m := range gone {
		missing = append(missing, fmt.Sprintf("%s: %s", m.Node, m.Why))
	}
	return list, missing, err
}
