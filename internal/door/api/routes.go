package api

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/memgauge/memgauge/internal/base/pattern"
)

// Route is a question as it is spelled: byte by byte, with its parameter.
type Route struct {
	Method, Target string
	Needs          Rights
}

// route is one that Handler serves.
type route struct {
	Route
	serve func(*handler, http.ResponseWriter, *http.Request)
}

// routes are all questions, and the right that each needs. What is not here does not exist, for any carrier.
//
// Census, backtrace and blocks are asked of live processes and still only read: the agent answers them in slices of
// some milliseconds from an allowance (docs/census.md), or once under the GIL (docs/agent.md), and runs no code but
// its own. A deep census is outside of that allowance and stops the trainer for as long as its heap is large. Record
// costs the trainer memory and time for as long as it is on; snapshot writes a file that may have gigabytes, from the
// trainer's main thread. Interrupt ends somebody's eval. Finish ends the collector: only run may say it, on the socket.
// Native, trim, attaching and detaching are no questions to a session: they are done by the session's user alone.
var routes = []route{
	{Route{"POST", "/v1/query", MayQuery}, (*handler).query},
	{Route{"GET", "/v1/tables", MayQuery}, tables(false)},
	{Route{"GET", "/v1/tables?all", MayQuery}, tables(true)},

	{Route{"GET", "/v1/about", MayRead}, told(Session.About)},
	{Route{"GET", "/v1/end", MayRead}, told(Session.End)},
	{Route{"GET", "/v1/summary", MayRead}, told(Session.Summary)},
	{Route{"GET", "/v1/where", MayRead}, told(Session.Where)},
	{Route{"POST", "/v1/processes", MayRead}, asked(Session.Processes)},
	{Route{"POST", "/v1/events", MayRead}, (*handler).events},
	{Route{"POST", "/v1/leak", MayRead}, asked(Session.Leak)},
	{Route{"POST", "/v1/oom", MayRead}, asked(Session.OOM)},
	{Route{"POST", "/v1/census", MayRead}, asked(Session.Census)},
	{Route{"POST", "/v1/backtrace", MayRead}, asked(Session.Backtrace)},
	{Route{"POST", "/v1/blocks", MayRead}, asked(Session.Blocks)},

	{Route{"POST", "/v1/census?deep", MayEval}, asked(Session.Census)},
	{Route{"POST", "/v1/eval", MayEval}, (*handler).eval},
	{Route{"POST", "/v1/interrupt", MayEval}, (*handler).interrupt},
	{Route{"POST", "/v1/record", MayRecord}, asked(Session.Record)},
	{Route{"POST", "/v1/snapshot", MaySnapshot}, (*handler).snapshot},
	{Route{"POST", "/v1/snapshot?bytes", MaySnapshot}, (*handler).snapshotBytes},

	{Route{"POST", "/v1/finish", MayFinish}, (*handler).finished},
}

// Routes lists all questions.
func Routes() []Route {
	list := make([]Route, len(routes))
	for i, r := range routes {
		list[i] = r.Route
	}
	return list
}

// spelled is the normal form: a method in capitals, one path without escapes, at most one parameter without a value.
// The longest of routes has 18 bytes.
var spelled = pattern.Of(`^(GET|POST) /v1/[a-z]{1,32}(\?[a-z]{1,32})?$`)

// find is where it is decided what a question is. It compares the text that was sent, and nothing that was made of it:
// no other spelling means the same. ErrUnknown is a question of another version; ErrForbidden is none at all.
func find(method, target string) (*route, error) {
	for i := range routes {
		if r := &routes[i]; r.Method == method && r.Target == target {
			return r, nil
		}
	}
	if spelled().MatchString(method + " " + target) {
		return nil, fmt.Errorf("%s %s: %w", method, target, ErrUnknown)
	}
	return nil, fmt.Errorf("%.20q %.80q is not spelled as a question: %w", method, target, ErrForbidden)
}

// Needs is the right that a question needs, with the errors of find.
func Needs(method, target string) (Rights, error) {
	r, err := find(method, target)
	if err != nil {
		return 0, err
	}
	return r.Needs, nil
}

// NewRequest makes the request of a question that came another way than HTTP, for a Handler.
func NewRequest(ctx context.Context, method, target string, body []byte) (*http.Request, error) {
	found, err := find(method, target)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: found.Method, URL: found.url(), RequestURI: found.Target, Host: Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body))}
	return r.WithContext(ctx), nil
}

// url is what a server makes of the target.
func (r Route) url() *url.URL {
	path, query, _ := strings.Cut(r.Target, "?")
	return &url.URL{Path: path, RawQuery: query}
}

// routed finds a request's route. Its parsed address has to say the same as its text.
func routed(r *http.Request) (*route, error) {
	found, err := find(r.Method, r.RequestURI)
	if err == nil && *r.URL != *found.url() {
		return nil, fmt.Errorf("%.80q was taken for %.80q: %w", r.RequestURI, r.URL, ErrForbidden)
	}
	return found, err
}
