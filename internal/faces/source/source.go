package source

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/fleet/hub"
)

// Role is something that can be asked of a source.
type Role uint

// The roles. Files are no role: a session says where those lie that it names (api.Files).
const (
	Sessions  Role = 1 << iota // which there are
	Query                      // rows in SQL, and the tables
	Leak                       // the verdict on each memory
	Ranks                      // what ranks held at equal steps, compared
	OOM                        // when memory runs out
	Where                      // every byte
	Processes                  // live trainers: stacks, tensors, code
	Session                    // all that api.Session answers, of one session
)

const (
	ofSession = Query | Leak | OOM | Where | Processes | Session
	ofFleet   = Sessions | Query | Leak | Ranks | OOM | Where | Processes | Session // that of its only session
	ofLake    = Query | Ranks
)

// Fleet is the sessions of many machines. A *Hub is one.
type Fleet interface {
	// Sessions lists those that a selection fits, and the nodes that did not answer.
	Sessions(ctx context.Context, s fanout.Select) ([]fanout.Session, []fanout.Missing, error)
	// All asks each of them with one message.
	All(ctx context.Context, s fanout.Select, r fanout.Request) ([]fanout.Answer, []fanout.Missing, error)
	// Open makes the door to one.
	Open(s fanout.Session) api.Session
	// Lake gives the rows that the hub keeps, of those that a selection fits.
	Lake(of fanout.Select) api.Session
	// Status asks the hub how it is.
	Status(ctx context.Context) (hub.Status, error)
	// Judged asks the hub for its own verdict on a job, "" on all, from the rows that nodes have sent.
	Judged(ctx context.Context, job string) (hub.Judgement, error)
	Close()
}

// Source is what an ENDPOINT means: a session, the sessions of many machines, or the rows of a lake.
type Source struct {
	Lake  string // where it lies; "": it is none
	Fleet Fleet  // nil: it is not many machines
	// Select says which sessions of the fleet are meant. Members has it mean finished ones where none lives.
	Select fanout.Select

	one  ask.Target
	can  Role
	list []Member // of Members, once it is known
	gone []fanout.Missing
}

// Of is the source of one session.
func Of(t ask.Target) *Source { return &Source{one: t, can: ofSession} }

// Open follows the words. A hub is reached with dial.
func Open(e Endpoint, dial func() (Fleet, error)) (*Source, error) {
	switch {
	case e.Lake != "":
		return &Source{Lake: e.Lake, can: ofLake}, nil
	case e.Many:
		f, err := dial()
		if err != nil {
			return nil, err
		}
		return &Source{Fleet: f, Select: fanout.Select{Job: e.Job, Node: e.Node, Rank: e.Rank}, can: ofFleet}, nil
	}
	t, err := ask.Find(e.Wanted)
	if err != nil {
		return nil, err
	}
	return Of(t), nil
}

// Close leaves the hub.
func (s *Source) Close() {
	if s.Fleet != nil {
		s.Fleet.Close()
	}
}

// Note is what a user is told of the choice, where it was not theirs.
func (s *Source) Note() string { return s.one.Note }

// ErrCannot is about a source that has no answer to what is asked.
var ErrCannot = errors.New("it can't be asked that")

// cannot is ErrCannot in words of its own.
type cannot string

func (c cannot) Error() string     { return string(c) }
func (c cannot) Is(err error) bool { return err == ErrCannot }

// Need is an error where a source can't be asked something.
func (s *Source) Need(r Role) error {
	if s.can&r == r {
		return nil
	}
	if s.Lake == "" {
		return remedy.Add(cannot("it is one session"), "hub, job=NAME or lake=WHERE before the command asks of many")
	}
	return remedy.Add(cannot("a lake is no session"), "query, tables and leak can be asked of one")
}

// Member is a session of a source.
type Member struct {
	fanout.Session // of a fleet's
	Target         ask.Target
}

// Narrow says that the words mean one session of a fleet, so that it is asked as one of this machine is.
func (s *Source) Narrow() bool {
	return s.Fleet == nil || len(s.list) == 1 && (s.Select.Node != "" || s.Select.Rank != nil)
}

// Members are the sessions that a command asks: the live ones, else the newest finished one of each node and job, as on
// one machine: what is over can be asked where nothing lives. They are looked for once.
func (s *Source) Members(ctx context.Context) (list []Member, missing []fanout.Missing, err error) {
	switch {
	case s.list != nil:
		return s.list, s.gone, nil
	case s.Fleet == nil:
		s.list = []Member{{Target: s.one}}
		return s.list, nil, nil
	}
	found, missing, err := s.Fleet.Sessions(ctx, s.Select)
	if err == nil && len(found) == 0 && !s.Select.Finished {
		s.Select.Finished = true
		found, missing, err = s.Fleet.Sessions(ctx, s.Select)
		found = newest(found)
	}
	if err != nil {
		return nil, missing, err
	}
	s.list, s.gone = make([]Member, len(found)), missing
	for i, f := range found {
		s.list[i] = s.member(f)
	}
	return s.list, missing, nil
}

func (s *Source) member(f fanout.Session) Member {
	rank := -1
	if s.Select.Rank != nil {
		rank = *s.Select.Rank
	}
	return Member{f, ask.Far(f.About, rank, func() api.Session { return s.Fleet.Open(f) })}
}

// newest keeps the last session of each node and job.
func newest(list []fanout.Session) (out []fanout.Session) {
	for i, s := range list {
		if i+1 < len(list) && list[i+1].Job == s.Job && list[i+1].Node == s.Node {
			continue // they are sorted by start
		}
		out = append(out, s)
	}
	return out
}

// One is the session that a command asks, if one is meant.
func (s *Source) One(ctx context.Context, command string) (t ask.Target, missing []fanout.Missing, err error) {
	if err := s.Need(Session); err != nil {
		return t, nil, err
	}
	list, missing, err := s.Members(ctx)
	switch {
	case err != nil:
	case len(list) == 0:
		err = ErrNobody
	case len(list) > 1:
		err = remedy.Add(cannot(fmt.Sprintf("%d sessions are meant, and one can be asked", len(list))),
			"node=NAME or rank=N says which: memgauge hub node="+list[0].Node+" "+command+" …")
	default:
		t = list[0].Target
	}
	return t, missing, err
}

// ErrNobody is a fleet without such a session.
var ErrNobody = remedy.Add(errors.New("no node has such a session"), "memgauge hub list -a shows all")

// Answer is what a session has answered.
type Answer[T any] struct {
	Member
	Value T
	Err   error
}

// Bounds of a question to many sessions.
const (
	atOnce = 64 // sessions that are asked at a time: each holds its answer in memory
	// nodeAtOnce is of one node, so that no node's sessions keep others' from being asked.
	nodeAtOnce = 8
	// NodeTime is for all sessions of a node together: as long as one may give signs of life, and no answer.
	NodeTime = 10 * time.Minute
)

var errNodeTime = fmt.Errorf("its node has had %s for all its sessions", units.Duration(NodeTime))

// part is what a node has of a question to many.
type part struct {
	slots chan struct{}
	begin func() context.Context // begins the node's time; the context of all its sessions
}

// Ask asks sessions side by side, and returns when all have answered, in their order. How long one may take is for its
// door to say: a node has to begin in time, and to go on. All sessions of a node may take so long together, 0 for ever;
// what is made of their answers takes at most nodeRoom.
func Ask[T any](ctx context.Context, list []Member, most time.Duration,
	one func(context.Context, Member) (T, error)) []Answer[T] {
	answers := make([]Answer[T], len(list))
	slots, parts := make(chan struct{}, atOnce), map[string]*part{}
	rooms := &rooms{of: map[string]*api.Room{}}
	ctx, over := context.WithCancel(ctx)
	defer over()
	var all sync.WaitGroup
	for i, m := range list {
		p := parts[m.Node]
		if p == nil {
			p = &part{slots: make(chan struct{}, nodeAtOnce)}
			ctx := api.WithRoom(ctx, rooms.room(m.Node))
			p.begin = sync.OnceValue(func() context.Context { return within(ctx, most) })
			parts[m.Node] = p
		}
		all.Go(func() {
			p.slots <- struct{}{}
			slots <- struct{}{}
			defer func() { <-slots; <-p.slots }()
			v, err := one(p.begin(), m)
			answers[i] = Answer[T]{m, v, err}
		})
	}
	all.Wait()
	return answers
}

// within is a context that ends after a while, 0: never. Its parent's end ends it too.
func within(ctx context.Context, most time.Duration) context.Context {
	if most == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(most, func() { cancel(errNodeTime) })
	context.AfterFunc(ctx, func() { timer.Stop() })
	return ctx
}
