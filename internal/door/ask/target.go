package ask

import (
	"context"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/service"
	"github.com/memgauge/memgauge/internal/record/session"
)

// Target is the session that an endpoint names, and perhaps one of its processes.
type Target struct {
	s    *session.Session
	far  *far   // set, and s is not, where the session is on another machine
	PID  int    // 0 if the endpoint named none
	Rank int    // -1 if the endpoint named none
	Note string // one line for the user when the choice was ours

	rights api.Rights // of the doors that it opens; 0: the user's own, all
	apart  bool
}

// Apart is the target for questions that come from outside, or one after the other to a process that must last: where
// the session is finished, a process of its own answers, which can read its files and nothing else.
func (t Target) Apart() Target {
	t.apart = true
	return t
}

// far is a session on another machine.
type far struct {
	about api.About
	open  func() api.Session
}

// Far is a session on another machine: open makes a door to it. rank is that of the process it is about, -1 for none.
func Far(about api.About, rank int, open func() api.Session) Target {
	return Target{far: &far{about, open}, Rank: rank}
}

// Limited is the same session, whose doors have these rights alone.
func (t Target) Limited(r api.Rights) Target {
	t.rights = r
	return t
}

// within gives a door the target's rights.
func (t Target) within(s api.Session) api.Session {
	if t.rights == 0 || s == nil {
		return s
	}
	return api.Limit(s, t.rights)
}

// Home is the directory in which sessions lie, and what else lasts for their user. It may not exist yet.
func Home() (string, error) { return session.Home() }

// Errors of finding a session that a caller tells apart.
var (
	ErrNone      = session.ErrNone      // there is no such session
	ErrAmbiguous = session.ErrAmbiguous // there are several
	ErrGone      = service.ErrGone      // there is no such process
)

// Wanted says which session is meant: by a PID, a name or id, a directory, or by nothing.
type Wanted = session.Wanted

// Find finds the session that is meant; where none is named, the only live session, else the newest finished one.
func Find(w Wanted) (Target, error) {
	t, err := session.Resolve(w)
	return Target{s: t.Session, PID: t.PID, Rank: t.Rank, Note: t.Note}, err
}

// At opens the session in a directory.
func At(dir string) (Target, error) {
	s, err := session.Open(dir)
	return Target{s: s, Rank: -1}, err
}

// Live lists the live sessions, newest first.
func Live() ([]Target, error) {
	all, err := session.AllLive()
	list := make([]Target, 0, len(all))
	for _, s := range all {
		list = append(list, Target{s: s, Rank: -1})
	}
	return list, err
}

// All lists the sessions, newest first; those that can't be read are left out.
func All() ([]Target, error) {
	all, err := session.All()
	list := make([]Target, 0, len(all))
	for _, s := range all {
		list = append(list, Target{s: s, Rank: -1})
	}
	return list, err
}

// About describes the session.
func (t Target) About() api.About {
	if t.far != nil {
		return t.far.about
	}
	return service.AboutOf(t.s)
}

// Name of the session.
func (t Target) Name() string { return t.About().Name }

// Dir is the session's directory, on its machine.
func (t Target) Dir() string { return t.About().Dir }

// IsLive reports whether the session is still running.
func (t Target) IsLive() bool {
	if t.far != nil {
		return t.far.about.Live
	}
	return t.s.Live()
}

// Open returns the session's interface; it connects to the database with the first request that needs it.
func (t Target) Open() api.Session {
	if t.far != nil {
		return t.within(t.far.open())
	}
	return t.within(&opened{Job: service.Job{S: t.s}, apart: t.apart})
}

// Connect is Open, but connects at once.
func (t Target) Connect(ctx context.Context) (api.Session, error) {
	if t.far != nil {
		return t.within(t.far.open()), nil
	}
	s, err := connected(ctx, &opened{Job: service.Job{S: t.s}, apart: t.apart})
	if err != nil {
		return nil, err
	}
	return t.within(s), nil
}

// Choice selects the live process that the endpoint names, unless other flags select one.
func (t Target) Choice() api.Choice {
	c := api.Choice{Hint: t.PID}
	if t.Rank >= 0 {
		c.Rank = &t.Rank
	}
	return c
}

// WhereOf lists the bytes of a process that belongs to no session. The error is ErrGone if there is no such process.
func WhereOf(pid int) (api.Where, error) {
	return service.WhereOf(pid)
}
