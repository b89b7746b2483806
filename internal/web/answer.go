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

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/page"
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
		err := s.doors.through(ctx, r.PathValue("id"), always, func(d *door) (err error) {
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
			Ranks: x.Ranks, Disk: x.DiskBytes}
		if !x.Ended.IsZero() {
			l.Ended = &x.Ended
		}
		if x.Rows >= 0 {
			l.Rows = &x.Rows
		}
		l.Live = l.Ended == nil && (x.State == "running" || x.State == "running, no answer yet" ||
			len(x.State) >= 12 && x.State[:12] == "not observed")
		list = append(list, l)
	}
	unread := []string{}
	for _, e := range left {
		unread = append(unread, e.Error())
	}
	reply(w, map[string]any{"sessions": list, "unread": unread}, err)
}

// first is the only row of a statement; a zero one where there is none.
func first[T any](ctx context.Context, s api.Session, sql string) (row T, err error) {
	rows, err := api.Rows[T](ctx, s, sql)
	if err == nil && len(rows) > 0 {
		row = rows[0]
	}
	return row, err
}

// short says in a row of the list how a session stands.
type short struct {
	Verdict *string `json:"verdict"`
	Peak    *int64  `json:"peak"`
	Limit   *int64  `json:"limit"`
	Steps   *int64  `json:"steps"`
}

// briefSQL: the limit is the cgroup's where one binds. The peak is the job's as the cgroup counts it, or the largest
// process's.
const briefSQL = `SELECT
	(SELECT run_verdict FROM memgauge.findings ORDER BY judgement DESC LIMIT 1) AS verdict,
	(SELECT max(peak_rss) FROM process.tree) AS peak,
	coalesce((SELECT min(limit_bytes) FROM cgroup.memory), (SELECT max(total) FROM host.memory)) AS "limit",
	(SELECT max(step) FROM python.steps) AS steps`

func brief(ctx context.Context, s api.Session, _ params) (any, error) {
	return first[short](ctx, s, briefSQL)
}

// described is all that a session's page shows besides its views.
type described struct {
	api.About
	End       api.End     `json:"end"`
	Summary   api.Summary `json:"summary"`
	From      int64       `json:"from"` // µs since the epoch, of the first reading
	To        int64       `json:"to"`
	Step      int64       `json:"step"` // the last
	Processes []process   `json:"processes"`
	Devices   []device    `json:"devices"`
	Cgroups   []string    `json:"cgroups"`
}

type process struct {
	PID     int     `json:"pid"`
	Parent  int     `json:"ppid"`
	Role    string  `json:"role"`
	Rank    *int    `json:"rank"`
	Command string  `json:"command"`
	Peak    *int64  `json:"peak_rss"`
	Ended   bool    `json:"ended"`
	Steps   *int64  `json:"steps"`
	Python  *string `json:"python"`
}

type device struct {
	ID    int    `json:"device_id"`
	Name  string `json:"name"`
	Total int64  `json:"total_bytes"`
}

const (
	// A page has no room for more than 200 processes: those that make steps come first, then the largest.
	processesSQL = `SELECT t.pid, t.ppid, t.role, t.rank, coalesce(nullif(t.command, ''), t.comm) AS command,
		t.peak_rss, t.ended, s.steps, p.python FROM process.tree t
		LEFT JOIN (SELECT pid, max(step) AS steps FROM python.steps GROUP BY pid) s ON s.pid = t.pid
		LEFT JOIN (SELECT pid, any_value(python) AS python FROM memgauge.processes GROUP BY pid) p ON p.pid = t.pid
		ORDER BY s.steps DESC NULLS LAST, t.peak_rss DESC NULLS LAST LIMIT 200`
	spanSQL = `SELECT (SELECT epoch_us(min(ts)) FROM host.memory) AS "from",
		(SELECT epoch_us(max(ts)) FROM host.memory) AS "to",
		(SELECT epoch_us(min(ts)) FROM python.steps) AS from_step,
		(SELECT epoch_us(max(ts)) FROM python.steps) AS to_step, (SELECT max(step) FROM python.steps) AS step`
	cgroupsSQL = `SELECT path FROM cgroup.memory GROUP BY path ORDER BY max(current) DESC LIMIT 4`
)

// span is the time that a session's readings cover.
type span struct {
	From     int64 `json:"from"`
	To       int64 `json:"to"`
	FromStep int64 `json:"from_step"`
	ToStep   int64 `json:"to_step"`
	Step     int64 `json:"step"`
}

func spanOf(ctx context.Context, s api.Session) (span, error) {
	x, err := first[span](ctx, s, spanSQL)
	if x.From == 0 || x.FromStep != 0 && x.FromStep < x.From {
		x.From = x.FromStep
	}
	x.To = max(x.To, x.ToStep)
	return x, err
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
	covered, err := spanOf(ctx, s)
	keep(err)
	d.From, d.To, d.Step = covered.From, covered.To, covered.Step
	d.Processes, err = api.Rows[process](ctx, s, processesSQL)
	keep(err)
	d.Devices, err = api.Rows[device](ctx, s, `SELECT device_id, name, total_bytes FROM gpu.devices ORDER BY device_id`)
	keep(err)
	paths, err := api.Rows[struct{ Path string }](ctx, s, cgroupsSQL)
	keep(err)
	for _, p := range paths {
		d.Cgroups = append(d.Cgroups, p.Path)
	}
	return d, failed
}

func tables(ctx context.Context, s api.Session, _ params) (any, error) { return s.Tables(ctx, false) }

// functions are the names that the editor completes.
func functions(ctx context.Context, s api.Session, _ params) (any, error) {
	rows, err := api.Rows[struct{ Name string }](ctx, s,
		`SELECT DISTINCT function_name AS name FROM duckdb_functions()
			WHERE regexp_matches(function_name, '^[a-z][a-z_0-9]*$')
			ORDER BY 1 LIMIT 2000`)
	names := []string{}
	for _, r := range rows {
		names = append(names, r.Name)
	}
	return names, err
}

// event is one of the job's. Our own questions to its processes are none.
type event struct {
	Micros int64  `json:"t"`
	PID    *int   `json:"pid"`
	Name   string `json:"name"`
	Text   string `json:"text"`
}

// eventsSQL reads the newest 1000: a page can't show more.
const eventsSQL = `SELECT * FROM (SELECT epoch_us(ts) AS t, pid, name, text FROM memgauge.events
	WHERE ` + page.TheirEvents + ` ORDER BY ts DESC LIMIT 1000) ORDER BY t`

func events(ctx context.Context, s api.Session, _ params) (any, error) {
	return api.Rows[event](ctx, s, eventsSQL)
}

type costs struct {
	Overhead []overhead `json:"overhead"`
	Drops    []drop     `json:"drops"`
	Lost     int64      `json:"lost"`
	LeftOut  int64      `json:"left_out"`
}

type overhead struct {
	Part    string   `json:"part"`
	Seconds float64  `json:"seconds"`
	Share   *float64 `json:"share"`
}

type drop struct {
	Source  string `json:"source"`
	Reason  string `json:"reason"`
	Records int64  `json:"records"`
}

func cost(ctx context.Context, s api.Session, _ params) (any, error) {
	var c costs
	var errs [3]error
	c.Overhead, errs[0] = api.Rows[overhead](ctx, s, page.OverheadSQL)
	c.Drops, errs[1] = api.Rows[drop](ctx, s,
		`SELECT source, reason, sum(records)::BIGINT AS records FROM memgauge.drops GROUP BY ALL ORDER BY records DESC
			LIMIT 100`)
	sum, err := s.Summary(ctx)
	c.Lost, c.LeftOut, errs[2] = sum.Lost, sum.LeftOut, err
	return c, errors.Join(errs[:]...)
}
