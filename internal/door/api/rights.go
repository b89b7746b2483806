package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/monitor"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Rights is a set of what whoever holds a session may have it do. The zero value allows nothing.
type Rights uint8

// The rights. Each question needs one of them: routes says which, and why.
const (
	MayQuery    Rights = 1 << iota // read rows: query, tables
	MayRead                        // read the rest, also from live processes, within the agent's bounds
	MayEval                        // run code in a training, interrupt it, or stop it for longer than the budget allows
	MayRecord                      // switch the recording of allocations
	MaySnapshot                    // have a training write its memory snapshot
	MayFinish                      // tell the collector that the command has ended
)

// Sets of rights.
const (
	Reading  = MayQuery | MayRead
	Changing = MayEval | MayRecord | MaySnapshot // only where the owner has allowed it
	Owner    = Reading | Changing | MayFinish    // those of the user whose session it is, on its own socket
)

// Has says whether all of these are among them.
func (r Rights) Has(other Rights) bool { return r&other == other }

// Changes says whether one of them does something to a training.
func (r Rights) Changes() bool { return r&Changing != 0 }

// Allowed are the rights that words of --allow give. Code can do all that the others do, so eval gives them too.
func Allowed(words []string) (r Rights, err error) {
	for _, word := range words {
		switch word {
		case "eval":
			r |= Changing
		case "record":
			r |= MayRecord
		case "snapshot":
			r |= MaySnapshot
		default:
			return 0, fmt.Errorf("--allow %q: only eval, record and snapshot can be allowed", word)
		}
	}
	return r, nil
}

// ErrForbidden is a question that its sender has no right to, or that is not spelled as questions are.
var ErrForbidden = errors.New("not allowed here")

func forbidden(what string) error {
	return remedy.Add(fmt.Errorf("%s: %w", what, ErrForbidden),
		"whoever lets others ask says so: --allow eval of hub and node, --allow-eval of web and mcp; "+
			"on the training's own machine its user may do everything")
}

// Limit gives a session that refuses what the rights don't allow. A session that was limited before stays so.
func Limit(s Session, r Rights) Session { return &limited{s, r} }

// limited embeds no Session: a question that is new has to be decided here before it compiles.
type limited struct {
	s      Session
	rights Rights
}

var _ Session = (*limited)(nil)

// may asks if the right is there.
func may[T any](l *limited, needs Rights, what string, ask func() (T, error)) (v T, err error) {
	if !l.rights.Has(needs) {
		return v, forbidden(what)
	}
	return ask()
}

func (l *limited) About(ctx context.Context) (About, error) {
	return may(l, MayRead, "about", func() (About, error) { return l.s.About(ctx) })
}

func (l *limited) End(ctx context.Context) (End, error) {
	return may(l, MayRead, "end", func() (End, error) { return l.s.End(ctx) })
}

func (l *limited) Processes(ctx context.Context, q ProcessesRequest) ([]Process, error) {
	return may(l, MayRead, "processes", func() ([]Process, error) { return l.s.Processes(ctx, q) })
}

func (l *limited) Query(ctx context.Context, q QueryRequest, w io.Writer) error {
	if !l.rights.Has(MayQuery) {
		return forbidden("query")
	}
	return l.s.Query(ctx, q, w)
}

func (l *limited) Tables(ctx context.Context, all bool) ([]model.Table, error) {
	return may(l, MayQuery, "tables", func() ([]model.Table, error) { return l.s.Tables(ctx, all) })
}

func (l *limited) Summary(ctx context.Context) (Summary, error) {
	return may(l, MayRead, "summary", func() (Summary, error) { return l.s.Summary(ctx) })
}

func (l *limited) Outcome(ctx context.Context) (Summary, error) {
	return may(l, MayRead, "outcome", func() (Summary, error) { return l.s.Outcome(ctx) })
}

func (l *limited) Events(ctx context.Context, q EventsRequest, take func(Event) error) error {
	if !l.rights.Has(MayRead) {
		return forbidden("events")
	}
	return l.s.Events(ctx, q, take)
}

func (l *limited) Leak(ctx context.Context, q LeakRequest) (detect.Report, error) {
	return may(l, MayRead, "leak", func() (detect.Report, error) { return l.s.Leak(ctx, q) })
}

func (l *limited) OOM(ctx context.Context, q OOMRequest) (*monitor.Report, error) {
	return may(l, MayRead, "oom", func() (*monitor.Report, error) { return l.s.OOM(ctx, q) })
}

func (l *limited) Where(ctx context.Context) (Where, error) {
	return may(l, MayRead, "where", func() (Where, error) { return l.s.Where(ctx) })
}

// Census: a deep one may stop the trainer as often as it is asked for, whatever the budget.
func (l *limited) Census(ctx context.Context, q CensusRequest) (CensusReply, error) {
	needs, what := MayRead, "census"
	if q.Deep {
		needs, what = MayEval, "deep census"
	}
	return may(l, needs, what, func() (CensusReply, error) { return l.s.Census(ctx, q) })
}

func (l *limited) Eval(ctx context.Context, q EvalRequest, out EvalOutput) (EvalReply, error) {
	return may(l, MayEval, "eval", func() (EvalReply, error) { return l.s.Eval(ctx, q, out) })
}

func (l *limited) Backtrace(ctx context.Context, q BacktraceRequest) (BacktraceReply, error) {
	return may(l, MayRead, "backtrace", func() (BacktraceReply, error) { return l.s.Backtrace(ctx, q) })
}

func (l *limited) Blocks(ctx context.Context, q BlocksRequest) (BlocksReply, error) {
	return may(l, MayRead, "blocks", func() (BlocksReply, error) { return l.s.Blocks(ctx, q) })
}

func (l *limited) Snapshot(ctx context.Context, q SnapshotRequest, w io.Writer) (SnapshotReply, error) {
	return may(l, MaySnapshot, "snapshot", func() (SnapshotReply, error) { return l.s.Snapshot(ctx, q, w) })
}

func (l *limited) Record(ctx context.Context, q RecordRequest) (RecordReply, error) {
	return may(l, MayRecord, "record", func() (RecordReply, error) { return l.s.Record(ctx, q) })
}

func (l *limited) SnapshotFile(ctx context.Context) (string, error) {
	return may(l, MayRead, "snapshot", func() (string, error) { return l.s.SnapshotFile(ctx) })
}

func (l *limited) SourceFile(ctx context.Context, name string) (string, error) {
	return may(l, MayRead, "source", func() (string, error) { return l.s.SourceFile(ctx, name) })
}

func (l *limited) Close() error { return l.s.Close() }

// String names the rights.
func (r Rights) String() string {
	var words []string
	for i, word := range []string{"query", "read", "eval", "record", "snapshot", "finish"} {
		if r.Has(1 << i) {
			words = append(words, word)
		}
	}
	return strings.Join(words, "+")
}
