package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// told is a fleet that lists sessions.
type told struct {
	Fleet
	list  []fanout.Session
	asked int
}

func (f *told) Sessions(_ context.Context, s fanout.Select) ([]fanout.Session, []fanout.Missing, error) {
	f.asked++
	return slices.DeleteFunc(slices.Clone(f.list), func(x fanout.Session) bool {
		return !s.Finished && !x.About.Live || s.Node != "" && s.Node != x.Node
	}), []fanout.Missing{{Node: "off"}}, nil
}

func on(node, id string, live bool, started int64) fanout.Session {
	return fanout.Session{Node: node, Job: "j", About: api.About{ID: id, Live: live, Started: time.Unix(started, 0)}}
}

func many(t *testing.T, e Endpoint, list ...fanout.Session) (*Source, *told) {
	t.Helper()
	f := &told{list: list}
	s, err := Open(e, func() (Fleet, error) { return f, nil })
	if err != nil {
		t.Fatal(err)
	}
	return s, f
}

// TestMembers: the live sessions are meant, else the newest finished one of each node; they are looked for once, and
// one that a node names is asked as if it were here.
func TestMembers(t *testing.T) {
	all := []fanout.Session{on("n1", "old", false, 1), on("n1", "new", false, 2), on("n2", "only", false, 1)}
	for _, c := range []struct {
		e      Endpoint
		live   bool
		want   []string
		narrow bool
	}{
		{Endpoint{Many: true}, false, []string{"new", "only"}, false},
		{Endpoint{Many: true}, true, []string{"now"}, false},
		{Endpoint{Many: true, Node: "n1"}, false, []string{"new"}, true},
		{Endpoint{Many: true, Node: "n9"}, false, nil, false},
	} {
		list := all
		if c.live {
			list = append(slices.Clone(all), on("n3", "now", true, 3))
		}
		s, f := many(t, c.e, list...)
		got, missing, err := s.Members(t.Context())
		var ids []string
		for _, m := range got {
			ids = append(ids, m.Target.About().ID)
		}
		if err != nil || !slices.Equal(ids, c.want) || len(missing) != 1 || s.Narrow() != c.narrow {
			t.Errorf("%+v: %v, %v, %v, narrow %v", c.e, ids, missing, err, s.Narrow())
		}
		before := f.asked
		if _, _, err := s.Members(t.Context()); err != nil || f.asked != before {
			t.Errorf("they were looked for %d times, %v", f.asked, err)
		}
	}
}

// TestWhatCantBeAsked: what a source has no answer to is one error, with what to do.
func TestWhatCantBeAsked(t *testing.T) {
	lake, err := Open(Endpoint{Lake: "/data"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _, ofLake := lake.One(t.Context(), "report")
	fleet, _ := many(t, Endpoint{Many: true}, on("n1", "a", true, 1), on("n2", "b", true, 1))
	_, _, ofMany := fleet.One(t.Context(), "report")
	for _, err := range []error{lake.Need(Where), lake.Need(OOM), ofLake, ofMany, Of(ask.Target{}).Need(Ranks)} {
		if !errors.Is(err, ErrCannot) || remedy.Of(err) == "" {
			t.Errorf("%v, %q", err, remedy.Of(err))
		}
	}
	if err := errors.Join(lake.Need(Query), lake.Need(Ranks), fleet.Need(Ranks), fleet.Need(Where),
		Of(ask.Target{}).Need(Session)); err != nil {
		t.Error(err)
	}
	none, _ := many(t, Endpoint{Many: true})
	if _, _, err := none.One(t.Context(), "report"); !errors.Is(err, ErrNobody) {
		t.Error(err)
	}
}

// TestAskIsBounded: sessions are asked side by side, so many at a time, and answer in their order.
func TestAskIsBounded(t *testing.T) {
	var now, most atomic.Int64
	var first sync.Once
	full := make(chan struct{})
	list := make([]Member, 3*atOnce)
	for i := range list {
		list[i].Node = string(rune('a' + i))
	}
	answers := Ask(t.Context(), list, 0, func(_ context.Context, m Member) (string, error) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
			continue
		}
		if n == atOnce {
			first.Do(func() { close(full) }) // from then on nobody waits
		}
		<-full
		return m.Node, nil
	})
	if most.Load() != atOnce {
		t.Errorf("%d at a time", most.Load())
	}
	for i, a := range answers {
		if a.Value != list[i].Node || a.Err != nil {
			t.Fatalf("answer %d is %q, %v", i, a.Value, a.Err)
		}
	}
}

// TestAskedNodeKeepsNobodyWaiting: sessions of one node, which never answer, leave those of others their turn, and have
// an end together.
func TestAskedNodeKeepsNobodyWaiting(t *testing.T) {
	list := make([]Member, 3*atOnce)
	for i := range list {
		list[i].Node = "hostile"
	}
	list = append(list, Member{})
	list[len(list)-1].Node = "honest"
	answered := make(chan struct{})
	answers := Ask(t.Context(), list, time.Millisecond, func(ctx context.Context, m Member) (string, error) {
		if m.Node == "honest" {
			close(answered)
			return "it", nil
		}
		<-answered
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
	for i, a := range answers {
		if honest := i == len(list)-1; honest != (a.Err == nil) || !honest && !errors.Is(a.Err, errNodeTime) {
			t.Fatalf("%s: %q, %v", a.Node, a.Value, a.Err)
		}
	}
}

// TestAskedNodeHasItsRoom: what sessions of one node answer takes its room together, and no other node's.
func TestAskedNodeHasItsRoom(t *testing.T) {
	list := make([]Member, 4)
	for i, node := range []string{"hostile", "hostile", "hostile", "honest"} {
		list[i].Node = node
	}
	answers := Ask(t.Context(), list, 0, func(ctx context.Context, _ Member) (int, error) {
		return 1, api.RoomOf(ctx).Take(nodeRoom/2 + 1)
	})
	kept := map[string]int{}
	for _, a := range answers {
		if a.Err == nil {
			kept[a.Node]++
		} else if !errors.Is(a.Err, api.ErrLarge) {
			t.Error(a.Err)
		}
	}
	if kept["hostile"] != 1 || kept["honest"] != 1 {
		t.Errorf("%v answers are kept", kept)
	}
}

// TestRoomOfANode: what many sessions of one node say takes no more memory together than it may, and others are read.
func TestRoomOfANode(t *testing.T) {
	rooms := rooms{of: map[string]*api.Room{}}
	text := []byte(`{"findings":[` + strings.Repeat("1,", 1<<17) + "1]}")
	var err error
	for i := 0; err == nil || !errors.Is(err, api.ErrLarge); i++ {
		if i > 100 {
			t.Fatal("there is no bound")
		}
		err = rooms.unmarshal("n1", text, &detect.Report{})
	}
	var r detect.Report
	if err := rooms.unmarshal("n2", []byte(`{"Verdict":"leak"}`), &r); err != nil || r.Verdict != "leak" {
		t.Errorf("%+v, %v", r, err)
	}
}
