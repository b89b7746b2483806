package ask

import (
	"context"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/service"
	"github.com/memgauge/memgauge/internal/session"
)

// Target is the session that an endpoint names, and perhaps one of its processes.
type Target struct {
	s    *session.Session
	PID  int    // 0 if the endpoint named none
	Rank int    // -1 if the endpoint named none
	Note string // one line for the user when the choice was ours
}

// Errors of finding a session that a caller tells apart.
var (
	ErrNone      = session.ErrNone      // there is no such session
	ErrAmbiguous = session.ErrAmbiguous // there are several
	ErrGone      = service.ErrGone      // there is no such process
)

// Find resolves an endpoint: a PID, a name or id, a directory, rank=N, or "" for the only live session, else the newest
// finished one.
func Find(endpoint string) (Target, error) {
	t, err := session.Resolve(endpoint)
	return Target{t.Session, t.PID, t.Rank, t.Note}, err
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

// About describes the session.
func (t Target) About() api.About { return service.AboutOf(t.s) }

// Name of the session.
func (t Target) Name() string { return t.s.Meta.Name }

// Dir is the session's directory.
func (t Target) Dir() string { return t.s.Dir }

// IsLive reports whether the session is still running.
func (t Target) IsLive() bool { return t.s.Live() }

// Open returns the session's interface; it connects to the database with the first request that needs it.
func (t Target) Open() api.Session { return Open(t.s) }

// Connect is Open, but connects at once.
func (t Target) Connect(ctx context.Context) (api.Session, error) { return Connect(ctx, t.s) }

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
