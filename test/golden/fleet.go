package golden

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
	"github.com/memgauge/memgauge/test/fakesession"
)

// Fleet are sessions as a hub's nodes tell of them.
type Fleet struct {
	Nodes []Node
	Gone  []fanout.Missing // nodes that answer nothing
}

// Node is one of them: a session and where it is.
type Node struct {
	fanout.Session
	Door *fakesession.Session
}

var _ source.Fleet = (*Fleet)(nil)

// Machines are nodes of two jobs: llama has ranks on n1 and n2, which say the same, and n3 answers nothing; over has
// ended. n4 is off.
func Machines(t *testing.T) *Fleet {
	t.Helper()
	mute := fakesession.Live(t)
	return &Fleet{Nodes: []Node{On("n1", "llama", fakesession.Live(t), 0, 1),
		On("n2", "llama", fakesession.Live(t), 2, 3),
		On("n3", "llama", mute.Fail(fakesession.Silence)), On("n1", "over", fakesession.Finished(t))},
		Gone: []fanout.Missing{{Node: "n4", Seen: fakesession.Now.Add(-time.Hour), Why: "it is not connected"}}}
}

// On is a session on a node.
func On(node, job string, s *fakesession.Session, ranks ...int) Node {
	state := "finished"
	if s.Job.Live {
		state = "running"
	}
	return Node{fanout.Session{Node: node, Job: job, Ranks: ranks, State: state, Rows: -1, About: s.Job}, s}
}

// Sessions implements source.Fleet, as all below do.
func (f *Fleet) Sessions(_ context.Context, s fanout.Select) (list []fanout.Session, _ []fanout.Missing, _ error) {
	for _, n := range f.of(s) {
		list = append(list, n.Session)
	}
	return list, f.Gone, nil
}

func (f *Fleet) of(s fanout.Select) []Node {
	return slices.DeleteFunc(slices.Clone(f.Nodes), func(n Node) bool {
		return s.Job != "" && s.Job != n.Job || s.Node != "" && s.Node != n.Node || !s.Finished && !n.About.Live ||
			s.Rank != nil && !slices.Contains(n.Ranks, *s.Rank)
	})
}

// All sends the request to each session's own handler.
func (f *Fleet) All(ctx context.Context, s fanout.Select, r fanout.Request) (list []fanout.Answer, _ []fanout.Missing,
	err error) {
	body, err := json.Marshal(r.Body)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range f.of(s) {
		asked, err := api.NewRequest(ctx, r.Method, r.Path, body)
		if err != nil {
			return nil, nil, err
		}
		w := httptest.NewRecorder()
		api.Handler(n.Door, api.Reading, func() {}).ServeHTTP(w, asked)
		a := fanout.Answer{Session: n.Session, Data: w.Body.Bytes()}
		if w.Code != http.StatusOK {
			e := api.Error{Message: http.StatusText(w.Code)}
			_ = json.Unmarshal(a.Data, &e) // else that is the message
			a.Err = e.Unpack()
		}
		list = append(list, a)
	}
	return list, f.Gone, nil
}

// Open gives the session of a node.
func (f *Fleet) Open(s fanout.Session) api.Session {
	for _, n := range f.Nodes {
		if n.Node == s.Node && n.About.ID == s.About.ID {
			return n.Door
		}
	}
	return nil
}

// Lake has no rows.
func (f *Fleet) Lake(fanout.Select) api.Session { return nil }

// Status says that the hub keeps none.
func (f *Fleet) Status(context.Context) (hub.Status, error) { return hub.Status{}, nil }

// Judged says that the hub has no rows of its own.
func (f *Fleet) Judged(context.Context, string) (hub.Judgement, error) { return hub.Judgement{}, nil }

// Close does nothing.
func (f *Fleet) Close() {}
