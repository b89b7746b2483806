package web

import (
	"context"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
)

// counted are the censuses of a session and the groups of one, beside those of the one before.
type counted struct {
	Censuses []questions.Census `json:"censuses"`
	Groups   []questions.Group  `json:"groups"`
	Objects  []questions.Object `json:"objects"`
}

// tensors are the groups of one census, compared with an older one: by default the newest with the one before.
func tensors(ctx context.Context, s api.Session, q params) (any, error) {
	var c counted
	var err error
	if c.Censuses, err = api.Ask(ctx, s, questions.AllCensuses); err != nil || len(c.Censuses) == 0 {
		c.Groups, c.Objects = []questions.Group{}, []questions.Object{}
		return c, err
	}
	pid, id, before := q.number("pid"), q.number("census"), q.number("before")
	if pid == 0 {
		pid = int64(c.Censuses[0].PID)
	}
	for _, x := range c.Censuses {
		switch {
		case int64(x.PID) != pid:
		case id == 0:
			id = x.ID
		case before == 0 && x.ID < id:
			before = x.ID
		}
	}
	if c.Groups, err = api.Ask(ctx, s, questions.Groups(pid, id, before)); err != nil {
		return nil, err
	}
	c.Objects, err = api.Ask(ctx, s, questions.Objects(pid, id))
	return c, err
}

// censusPatience is how long a census may take before the page gives it up.
const censusPatience = time.Minute

// census has live processes look at what holds their memory.
func census(ctx context.Context, s api.Session, _ params) (any, error) {
	return s.Census(ctx, api.CensusRequest{Timeout: censusPatience})
}

// stacks are what every thread does.
func stacks(ctx context.Context, s api.Session, _ params) (any, error) {
	return s.Backtrace(ctx, api.BacktraceRequest{Choice: api.Choice{All: true}})
}
