package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/allowed"
)

// question is what a page asks of a session and gets one JSON document for.
type question func(ctx context.Context, s api.Session, q params) (any, error)

// params are a question's, from its address.
type params url.Values

func (p params) text(name string) string { return url.Values(p).Get(name) }

// number is 0 where there is none.
func (p params) number(name string) int64 {
	n, _ := strconv.ParseInt(p.text(name), 10, 64)
	return n
}

// answerPatience bounds every question but those whose requests bring a limit: a page waits no longer.
const answerPatience = 2 * time.Minute

func (s *Server) asked(answer question) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), answerPatience)
		defer cancel()
		var v any
		err := s.doors.through(ctx, r.PathValue("id"), func(d *door) (err error) {
			v, err = answer(ctx, d, params(r.URL.Query()))
			return err
		})
		reply(w, v, err)
	}
}

// reply writes an answer, or the error with its remedy. An answer that can't be written as JSON is an error of ours.
func reply(w http.ResponseWriter, v any, err error) {
	status := http.StatusOK
	if err != nil {
		status, v = http.StatusUnprocessableEntity, api.Pack(err)
	}
	if errors.Is(err, api.ErrForbidden) {
		status = http.StatusForbidden
	}
	text, err := json.Marshal(v)
	if err != nil {
		status = http.StatusInternalServerError
		text, _ = json.Marshal(api.Pack(err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// config tells the page what it may offer.
type config struct {
	Version   string `json:"version"`
	AllowEval bool   `json:"allow_eval"`
	First     string `json:"first"`
	Job       string `json:"job"`
}

func (s *Server) config(w http.ResponseWriter, _ *http.Request) {
	c := config{s.Version, s.AllowEval, s.First, ""}
	if s.Job != nil {
		c.Job = s.Job.Name
	}
	reply(w, c, nil)
}

// listed is a session in the list of the page.
type listed struct {
	ID      string     `json:"id"`
	Name    string     `json:"name"`
	Command []string   `json:"command"`
	Started time.Time  `json:"started"`
	Ended   *time.Time `json:"ended"`
	State   string     `json:"state"`
	Live    bool       `json:"live"`
	PIDs    []int      `json:"pids"`
	Ranks   []int      `json:"ranks"`
	Rows    *int64     `json:"rows"`
	Disk    int64      `json:"disk_bytes"`
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	found, left, err := s.Sessions.List(r.Context())
	list := []listed{}
	for _, x := range found {
		l := listed{ID: x.ID, Name: x.Name, Command: x.Command, Started: x.Started, State: x.State, PIDs: x.PIDs,
			Ranks: x.Ranks, Disk: x.DiskBytes, Live: x.Live}
		if !x.Ended.IsZero() {
			l.Ended = &x.Ended
		}
		if x.Rows >= 0 {
			l.Rows = &x.Rows
		}
		list = append(list, l)
	}
	unread := []string{}
	for _, e := range left {
		unread = append(unread, e.Error())
	}
	reply(w, map[string]any{"sessions": list, "unread": unread}, err)
}

// firstOf is the only row of a question's answer; a zero one where there is none.
func firstOf[T any](ctx context.Context, s api.Session, q questions.Of[T]) (row T, err error) {
	rows, err := api.Ask(ctx, s, q)
	if err == nil && len(rows) > 0 {
		row = rows[0]
	}
	return row, err
}

func brief(ctx context.Context, s api.Session, _ params) (any, error) {
	return firstOf(ctx, s, questions.Brief)
}

// described is all that a session's page shows besides its views.
type described struct {
	api.About
	End       api.End             `json:"end"`
	Summary   api.Summary         `json:"summary"`
	From      int64               `json:"from"` // µs since the epoch, of the first reading
	To        int64               `json:"to"`
	Step      int64               `json:"step"` // the last
	Processes []questions.Stepped `json:"processes"`
	Devices   []questions.Device  `json:"devices"`
	Cgroups   []questions.Cgroup  `json:"cgroups"`
}

func about(ctx context.Context, s api.Session, _ params) (any, error) {
	var d described
	var failed error
	keep := func(err error) { failed = cmp.Or(failed, err) }
	var err error
	d.About, err = s.About(ctx)
	keep(err)
	d.Summary, err = s.Summary(ctx)
	keep(err)
	d.End, err = s.End(ctx) // behind the summary: opening what has just ended has its end recorded
	keep(err)
	covered, err := firstOf(ctx, s, questions.Span)
	keep(err)
	d.From, d.To, d.Step = covered.From, covered.To, covered.Step
	d.Processes, err = api.Ask(ctx, s, questions.Foremost(200)) // a page has no room for more
	keep(err)
	d.Devices, err = api.Ask(ctx, s, questions.Devices)
	keep(err)
	d.Cgroups, err = api.Ask(ctx, s, questions.Cgroups)
	keep(err)
	return d, failed
}

func tables(ctx context.Context, s api.Session, _ params) (any, error) { return s.Tables(ctx, false) }

// functions are the names that the editor completes: those that a question may call.
func functions(context.Context, api.Session, params) (any, error) { return allowed.Calls(), nil }

func events(ctx context.Context, s api.Session, _ params) (any, error) {
	return api.Ask(ctx, s, questions.Events(1000)) // a page can't show more
}

type costs struct {
	Budget   float64          `json:"budget"` // share of the training's time; 0: not known
	Sides    []questions.Cost `json:"sides"`  // trainer and collector, each in all
	Overhead []questions.Cost `json:"overhead"`
	Drops    []questions.Drop `json:"drops"`
	Lost     int64            `json:"lost"`
	LeftOut  int64            `json:"left_out"`
}

func cost(ctx context.Context, s api.Session, _ params) (any, error) {
	var c costs
	var errs [5]error
	c.Overhead, errs[0] = api.Ask(ctx, s, questions.Costs)
	c.Sides, errs[3] = api.Ask(ctx, s, questions.CostBySide)
	about, err := s.About(ctx)
	c.Budget, errs[4] = about.Budget, err
	c.Drops, errs[1] = api.Ask(ctx, s, questions.Drops(100))
	sum, err := s.Summary(ctx)
	c.Lost, c.LeftOut, errs[2] = sum.Lost, sum.LeftOut, err
	return c, errors.Join(errs[:]...)
}
