// Package rights says for tests which question passes which carrier: one table, against which each carrier is tested
// where it lives. A route without a row fails them all.
package rights

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Carriers that hand questions to a session, in the order of the table's columns.
const (
	Socket   = iota // the collector's, of the user's own
	Ask             // a node, on the subject for all who may ask
	Grant           // a node whose user allows nothing, on the subject for what changes something
	Record          // likewise, with --allow record
	Allowed         // likewise, with --allow eval
	Lake            // what a hub keeps
	Web             // memgauge web
	WebEval         // likewise, with --allow-eval
	MCP             // memgauge mcp
	MCPEval         // likewise, with --allow-eval
	carriers        // how many there are
)

// table: a + where the question reaches the session. A node with --allow hears all questions on that subject; one
// without hears nothing there.
const table = `
POST /v1/query          + + - + +  + + + + +
GET /v1/tables          + + - + +  + + + + +
GET /v1/tables?all      + + - + +  + + + + +
GET /v1/about           + + - + +  - + + + +
GET /v1/end             + + - + +  - + + + +
GET /v1/summary         + + - + +  - + + + +
GET /v1/where           + + - + +  - + + + +
POST /v1/processes      + + - + +  - + + + +
POST /v1/events         + + - + +  - + + + +
POST /v1/leak           + + - + +  - + + + +
POST /v1/oom            + + - + +  - + + + +
POST /v1/census         + + - + +  - + + + +
POST /v1/backtrace      + + - + +  - + + + +
POST /v1/blocks         + + - + +  - + + + +
POST /v1/census?deep    + - - - +  - - + - +
POST /v1/eval           + - - - +  - - + - +
POST /v1/interrupt      + - - - +  - - + - +
POST /v1/record         + - - + +  - - - - -
POST /v1/snapshot       + - - - +  - - - - -
POST /v1/snapshot?bytes + - - - +  - - - - -
POST /v1/finish         + - - - -  - - - - -
`

// Each asks all routes of a carrier and compares with the table. ask says whether the question was refused.
func Each(t *testing.T, carrier int, s *Session, ask func(api.Route) (refused bool)) {
	t.Helper()
	rows := map[string][]string{}
	for line := range strings.Lines(strings.TrimSpace(table)) {
		words := strings.Fields(line)
		rows[words[0]+" "+words[1]] = words[2:]
	}
	for _, r := range api.Routes() {
		name := r.Method + " " + r.Target
		row := rows[name]
		delete(rows, name)
		if len(row) != carriers {
			t.Errorf("%s has no row in the table of rights", name)
			continue
		}
		s.Reached()
		refused := ask(r)
		reached := s.Reached()
		if passes := row[carrier] == "+"; refused == passes || !passes && reached != "" {
			t.Errorf("%s: passes %v, want %v; it reached %q", name, !refused, passes, reached)
		}
	}
	for name := range rows {
		t.Errorf("%s has a row, and is not a route", name)
	}
}

// Attacks are spellings of questions that change something, which some parser may take for one.
var Attacks = []api.Route{
	{Method: "POST", Target: "/v1/eval#x"}, {Method: "POST", Target: "/v1/%65val"},
	{Method: "POST", Target: "/v1%2feval"}, {Method: "POST", Target: "/%76%31/eval"},
	{Method: "POST", Target: "/v1//eval"}, {Method: "POST", Target: "//v1/eval"},
	{Method: "POST", Target: "/v1/./eval"}, {Method: "POST", Target: "/v1/x/../eval"},
	{Method: "POST", Target: "/v1/query/../eval"}, {Method: "POST", Target: "/v1/eval/"},
	{Method: "POST", Target: "/v1/eval?x=1"}, {Method: "POST", Target: "/v1/eval?"},
	{Method: "POST", Target: "/v1/eval?x&y"}, {Method: "POST", Target: "/v1/snapshot?bytes&bytes"},
	{Method: "POST", Target: "/v1/snapshot?byte%73"}, {Method: "POST", Target: "/v1/snapshot?bytes="},
	{Method: "POST", Target: "/V1/eval"}, {Method: "POST", Target: "/v1/Eval"}, {Method: "POST", Target: "/v1/EVAL"},
	{Method: "POST", Target: "/v1/eval%00"}, {Method: "POST", Target: "/v1/eval\x00"},
	{Method: "POST", Target: "/v1/eval;x"}, {Method: "POST", Target: "/v1/eval%20"},
	{Method: "POST", Target: "/v1/eval\t"}, {Method: "POST", Target: "/v1/eval\r\n"},
	{Method: "POST", Target: "/v1/eval\n"}, {Method: "POST", Target: " /v1/eval"},
	{Method: "POST", Target: "/v1\\eval"}, {Method: "POST", Target: "v1/eval"}, {Method: "POST", Target: "*"},
	{Method: "POST", Target: "http://memgauge.local/v1/eval"}, {Method: "POST", Target: "//memgauge.local/v1/eval"},
	{Method: "POST", Target: "http://u:p@memgauge.local/v1/eval"}, // #nosec G101 -- it opens nothing
	{Method: "POST", Target: "@memgauge.local/v1/eval"},
	{Method: "POST", Target: ".evil.example/v1/eval"}, {Method: "POST", Target: ":80/v1/eval"},
	{Method: "post", Target: "/v1/eval"}, {Method: "Post", Target: "/v1/eval"},
	{Method: "POST ", Target: "/v1/eval"}, {Method: "POST\r\n", Target: "/v1/eval"},
	{Method: "POST /v1/eval HTTP/1.1\r\n\r\nGET", Target: "/v1/about"},
	{Method: "", Target: "/v1/eval"}, {Method: "PUT", Target: "/v1/eval"}, {Method: "HEAD", Target: "/v1/eval"},
	{Method: "CONNECT", Target: "/v1/eval"}, {Method: "OPTIONS", Target: "*"},
}

// Session answers everything with nothing, and remembers what it was asked.
type Session struct {
	mu      sync.Mutex
	reached []string
}

// Reached tells what it was asked since the last time.
func (s *Session) Reached() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := strings.Join(s.reached, " ")
	s.reached = nil
	return text
}

// Changed says whether Reached tells of something that changes a training.
func Changed(reached string) bool {
	for _, word := range strings.Fields(reached) {
		switch word {
		case "deep", "eval", "record", "snapshot", "finish":
			return true
		}
	}
	return false
}

// Note remembers that it was asked something.
func (s *Session) Note(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reached = append(s.reached, what)
}

func note[T any](s *Session, what string) (v T, err error) {
	s.Note(what)
	return v, nil
}

// About tells of a live session.
func (s *Session) About(context.Context) (api.About, error) {
	s.Note("about")
	return api.About{ID: "1", Name: "fake", Live: true}, nil
}

// SnapshotFile is none.
func (s *Session) SnapshotFile(context.Context) (string, error) {
	return note[string](s, "snapshot file")
}

// SourceFile likewise.
func (s *Session) SourceFile(context.Context, string) (string, error) {
	return note[string](s, "source file")
}

// End of none, long ago.
func (s *Session) End(context.Context) (api.End, error) {
	end, err := note[api.End](s, "end")
	end.Final = true
	return end, err
}

// Processes are none.
func (s *Session) Processes(context.Context, api.ProcessesRequest) ([]api.Process, error) {
	return note[[]api.Process](s, "processes")
}

// Query gives an empty answer.
func (s *Session) Query(context.Context, api.QueryRequest, io.Writer) error {
	s.Note("query")
	return nil
}

// Tables are none.
func (s *Session) Tables(context.Context, bool) ([]model.Table, error) {
	return note[[]model.Table](s, "tables")
}

// Summary of nothing.
func (s *Session) Summary(context.Context) (api.Summary, error) {
	return note[api.Summary](s, "summary")
}

// Outcome of nothing.
func (s *Session) Outcome(context.Context) (api.Summary, error) {
	return note[api.Summary](s, "outcome")
}

// Events are none.
func (s *Session) Events(context.Context, api.EventsRequest, func(api.Event) error) error {
	s.Note("events")
	return nil
}

// Leak finds none.
func (s *Session) Leak(context.Context, api.LeakRequest) (detect.Report, error) {
	return note[detect.Report](s, "leak")
}

// OOM predicts none.
func (s *Session) OOM(context.Context, api.OOMRequest) (*monitor.Report, error) {
	s.Note("oom")
	return &monitor.Report{}, nil
}

// Where has nothing.
func (s *Session) Where(context.Context) (api.Where, error) { return note[api.Where](s, "where") }

// Census counts nothing.
func (s *Session) Census(_ context.Context, q api.CensusRequest) (api.CensusReply, error) {
	if q.Deep {
		return note[api.CensusReply](s, "deep")
	}
	return note[api.CensusReply](s, "census")
}

// Eval runs nothing.
func (s *Session) Eval(context.Context, api.EvalRequest, api.EvalOutput) (api.EvalReply, error) {
	return note[api.EvalReply](s, "eval")
}

// Backtrace has no stacks.
func (s *Session) Backtrace(context.Context, api.BacktraceRequest) (api.BacktraceReply, error) {
	return note[api.BacktraceReply](s, "backtrace")
}

// Blocks are none.
func (s *Session) Blocks(context.Context, api.BlocksRequest) (api.BlocksReply, error) {
	return note[api.BlocksReply](s, "blocks")
}

// Snapshot writes none.
func (s *Session) Snapshot(context.Context, api.SnapshotRequest, io.Writer) (api.SnapshotReply, error) {
	return note[api.SnapshotReply](s, "snapshot")
}

// Record switches nothing.
func (s *Session) Record(context.Context, api.RecordRequest) (api.RecordReply, error) {
	return note[api.RecordReply](s, "record")
}

// Close does nothing.
func (*Session) Close() error { return nil }

// Call asks a session itself what a route asks, for carriers that have no routes of package api. Interrupting is a part
// of an eval there, and finishing is no question to a session.
func Call(ctx context.Context, s api.Session, r api.Route) (refused bool) {
	drop := func(_ any, err error) error { return err }
	noEvent := func(api.Event) error { return nil }
	err := map[string]func() error{
		"/v1/query":          func() error { return s.Query(ctx, api.QueryRequest{}, io.Discard) },
		"/v1/tables":         func() error { return drop(s.Tables(ctx, false)) },
		"/v1/tables?all":     func() error { return drop(s.Tables(ctx, true)) },
		"/v1/about":          func() error { return drop(s.About(ctx)) },
		"/v1/end":            func() error { return drop(s.End(ctx)) },
		"/v1/summary":        func() error { return errors.Join(drop(s.Summary(ctx)), drop(s.Outcome(ctx))) },
		"/v1/where":          func() error { return drop(s.Where(ctx)) },
		"/v1/processes":      func() error { return drop(s.Processes(ctx, api.ProcessesRequest{})) },
		"/v1/events":         func() error { return s.Events(ctx, api.EventsRequest{}, noEvent) },
		"/v1/leak":           func() error { return drop(s.Leak(ctx, api.LeakRequest{})) },
		"/v1/oom":            func() error { return drop(s.OOM(ctx, api.OOMRequest{})) },
		"/v1/census":         func() error { return drop(s.Census(ctx, api.CensusRequest{})) },
		"/v1/census?deep":    func() error { return drop(s.Census(ctx, api.CensusRequest{Deep: true})) },
		"/v1/backtrace":      func() error { return drop(s.Backtrace(ctx, api.BacktraceRequest{})) },
		"/v1/blocks":         func() error { return drop(s.Blocks(ctx, api.BlocksRequest{})) },
		"/v1/eval":           func() error { return drop(s.Eval(ctx, api.EvalRequest{}, api.EvalOutput{})) },
		"/v1/interrupt":      func() error { return drop(s.Eval(ctx, api.EvalRequest{}, api.EvalOutput{})) },
		"/v1/record":         func() error { return drop(s.Record(ctx, api.RecordRequest{})) },
		"/v1/snapshot":       func() error { return drop(s.Snapshot(ctx, api.SnapshotRequest{}, nil)) },
		"/v1/snapshot?bytes": func() error { return drop(s.Snapshot(ctx, api.SnapshotRequest{}, io.Discard)) },
		"/v1/finish":         func() error { return api.ErrForbidden },
	}[r.Target]()
	return errors.Is(err, api.ErrForbidden)
}

// Body is a request's for a route. A deep census says so in its body.
func Body(r api.Route) string {
	if r.Target == "/v1/census?deep" {
		return `{"deep":true}`
	}
	return "{}"
}
