package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

const (
	// atOnce bounds how many sessions are asked at a time: each holds its answer in memory.
	atOnce = 64
	// maxMissing bounds the lines about nodes that did not answer.
	maxMissing = 20
)

// question is a command line that asks many machines.
type question struct {
	*app.App
	c    *cobra.Command
	args []string // its own
	line []string // all of it, without the ENDPOINT
	sel  fanout.Select

	byTrino bool // a Trino server answers it, which knows nothing of nodes
}

// Elsewhere answers a command line that asks many machines.
func Elsewhere(ctx context.Context, a *app.App, c *cobra.Command, args, line []string) error {
	e := a.Endpoint
	q := &question{App: a, c: c, args: args, line: line, sel: fanout.Select{Job: e.Job, Node: e.Node, Rank: e.Rank}}
	return q.run(ctx)
}

// command is the name of the command, or of the one that it is below.
func (q *question) command() string {
	name, _, _ := strings.Cut(app.Called(q.c), " ")
	return name
}

// says whether a switch is on.
func (q *question) says(flag string) bool {
	on, err := q.c.Flags().GetBool(flag)
	return err == nil && on
}

// given calls do for each flag of the command's own that was given.
func (q *question) given(do func(*pflag.Flag)) {
	q.c.Flags().Visit(func(f *pflag.Flag) {
		if q.c.InheritedFlags().Lookup(f.Name) == nil {
			do(f)
		}
	})
}

// many are the commands that make sense for many sessions at once.
var many = []string{"query", "tables", "leak", "where", "list", "backtrace", "tensors", "oom", "report", "eval", "web"}

// run asks every session that the endpoint means.
func (q *question) run(ctx context.Context) error {
	command := q.command()
	way := q.Hub.Way
	way.Addr = q.Endpoint.Hub
	conn, err := way.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	asker := fanout.NewAsker(conn, q.Hub.Wait)
	if q.comparesRanks() && q.sel.Rank == nil && q.sel.Node == "" {
		return q.leak(ctx, asker)
	}
	if taken, err := q.fromLake(ctx, asker); taken || err != nil {
		return err
	}
	q.sel.Finished = command == "list" && q.says("all")
	list, missing, err := asker.Sessions(ctx, q.sel)
	if err == nil && len(list) == 0 && command != "list" && !q.sel.Finished {
		q.sel.Finished = true // as on one machine: what is over can be asked where nothing lives
		if list, missing, err = asker.Sessions(ctx, q.sel); err == nil {
			list = newest(list)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	q.tell(missing)
	return q.strictly(missing, q.answer(ctx, asker, list, missing))
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

func (q *question) answer(ctx context.Context, asker *fanout.Asker, list []fanout.Session,
	missing []fanout.Missing) error {
	command := q.command()
	switch {
	case command == "list":
		return q.list(list, missing)
	case len(list) == 0:
		return remedy.Add(fmt.Errorf("%s: no node has such a session", command), "memgauge hub list -a shows all")
	case len(list) == 1 && (q.sel.Node != "" || q.sel.Rank != nil || q.asksOne()):
		return q.one(ctx, asker, list[0])
	case q.asksOne():
		return app.Usage(remedy.Add(fmt.Errorf("%s: %d sessions are meant, and it asks one", command, len(list)),
			"node=NAME or rank=N says which: memgauge hub node="+list[0].Node+" "+command+" …"))
	case command == "web":
		return q.web(ctx, asker, list)
	case command == "query":
		return q.query(ctx, asker, list)
	}
	answers := q.ask(ctx, asker, list)
	if q.says("json") {
		return q.document(answers, missing)
	}
	return q.show(answers)
}

// asksOne says that the command's answers can't be put together: only one session can be asked.
func (q *question) asksOne() bool {
	switch name := q.command(); name {
	case "report":
		return !q.says("json")
	case "eval":
		return !q.says("all")
	default:
		return !slices.Contains(many, name)
	}
}

// tell names the nodes that did not answer.
func (q *question) tell(missing []fanout.Missing) {
	for _, m := range missing[:min(len(missing), maxMissing)] {
		plain.Fprintf(q.Stderr, "memgauge: node %s is missing: %s, last heard of %s\n", m.Node, m.Why,
			units.Age(m.Seen, time.Now()))
	}
	if more := len(missing) - maxMissing; more > 0 {
		fmt.Fprintf(q.Stderr, "memgauge: and %d more nodes are missing (--json names them)\n", more)
	}
}

func (q *question) strictly(missing []fanout.Missing, err error) error {
	if err == nil && q.Hub.Strict && len(missing) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("%d nodes did not answer", len(missing)))
	}
	var code interface{ Error() string }
	if q.Hub.Strict && len(missing) > 0 && errors.As(err, &code) {
		return app.Exit(app.ExitFailed, errors.Join(err, fmt.Errorf("%d nodes did not answer", len(missing))))
	}
	return err
}

// target is the session as commands take it.
func (q *question) target(asker *fanout.Asker, s fanout.Session) *ask.Target {
	rank := -1
	if q.sel.Rank != nil {
		rank = *q.sel.Rank
	}
	t := ask.Far(s.About, rank, func() api.Session { return asker.Open(s) })
	return &t
}

// one runs the command as if the session were here.
func (q *question) one(ctx context.Context, asker *fanout.Asker, s fanout.Session) error {
	sub := q.Again()
	sub.Far = q.target(asker, s)
	return sub.Execute(ctx, q.line)
}

// answered is what a command printed about one session.
type answered struct {
	fanout.Session
	out, err bytes.Buffer
	code     int
}

// ask runs the command for every session.
func (q *question) ask(ctx context.Context, asker *fanout.Asker, list []fanout.Session) []*answered {
	var stdin []byte
	if slices.Contains(q.args, "-") {
		stdin, _ = io.ReadAll(io.LimitReader(q.OpenStdin(ctx), 8<<20)) // more than any command takes
	}
	answers := make([]*answered, len(list))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, s := range list {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			a := &answered{Session: s}
			sub := q.Again()
			sub.Stdin, sub.Stdout, sub.Stderr = bytes.NewReader(stdin), &a.out, &a.err
			sub.Far = q.target(asker, s)
			a.code = sub.Report(sub.Execute(ctx, q.line))
			answers[i] = a
		})
	}
	all.Wait()
	return answers
}

// worst is the exit code of several: what failed counts more than what was found, and that more than nothing.
func worst(answers []*answered) int {
	code := 0
	for _, a := range answers {
		switch {
		case a.code == app.ExitFindings && code == 0, a.code != 0 && a.code != app.ExitFindings:
			code = a.code
		}
	}
	return code
}

func exit(answers []*answered) error {
	if code := worst(answers); code != 0 {
		return app.Exit(code, nil)
	}
	return nil
}

// show prints what was found first, and sessions that say the same together.
func (q *question) show(answers []*answered) error {
	order := slices.Clone(answers)
	slices.SortStableFunc(order, func(a, b *answered) int { return weight(b) - weight(a) })
	out := q.Text()
	same := map[string][]*answered{}
	for _, a := range order {
		same[a.out.String()+"\x00"+a.err.String()] = append(same[a.out.String()+"\x00"+a.err.String()], a)
	}
	for _, a := range order {
		group := same[a.out.String()+"\x00"+a.err.String()]
		if group[0] != a {
			continue
		}
		fmt.Fprintf(out, "%s\n", title(group))
		_, _ = out.Write(a.out.Bytes())
		_, _ = q.Stderr.Write(a.err.Bytes())
		fmt.Fprintln(out)
	}
	return exit(answers)
}

func weight(a *answered) int {
	switch a.code {
	case app.ExitFindings:
		return 2
	case 0:
		return 0
	}
	return 1
}

// maxNamed bounds how many nodes of a group are named.
const maxNamed = 8

// title names the sessions of a group, in one line: names are what nodes say.
func title(group []*answered) string { return plain.Line(titleText(group)) }

func titleText(group []*answered) string {
	s := group[0]
	text := fmt.Sprintf("node %s, job %s", s.Node, s.Job)
	if len(s.Ranks) > 0 {
		text += ", ranks " + ranksText(s.Ranks)
	}
	if len(group) == 1 {
		return text + ", session " + s.About.Name
	}
	names := []string{}
	for _, a := range group[:min(len(group), maxNamed)] {
		names = append(names, a.Node)
	}
	text = fmt.Sprintf("%d sessions alike: nodes %s", len(group), strings.Join(names, ", "))
	if more := len(group) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func ranksText(list []int) string {
	var parts []string
	for i := 0; i < len(list); i++ {
		end := i
		for end+1 < len(list) && list[end+1] == list[end]+1 {
			end++
		}
		text := fmt.Sprint(list[i])
		if end > i {
			text += fmt.Sprintf("-%d", list[end])
		}
		parts = append(parts, text)
		i = end
	}
	return strings.Join(parts, ", ")
}

// answerJSON is one session's answer in a document of many.
type answerJSON struct {
	Job      string          `json:"job"`
	Node     string          `json:"node"`
	Session  string          `json:"session"`
	Name     string          `json:"name"`
	Ranks    []int           `json:"ranks"`
	ExitCode int             `json:"exit_code"`
	Answer   json.RawMessage `json:"answer"` // the command's own document; null where it failed
	Error    string          `json:"error,omitempty"`
}

func (q *question) document(answers []*answered, missing []fanout.Missing) error {
	list := []answerJSON{}
	for _, a := range answers {
		one := answerJSON{a.Job, a.Node, a.About.ID, a.About.Name, append([]int{}, a.Ranks...), a.code,
			json.RawMessage("null"), strings.TrimSpace(a.err.String())}
		if json.Valid(a.out.Bytes()) {
			one.Answer = a.out.Bytes()
		}
		list = append(list, one)
	}
	err := doc.WriteJSON(q.Stdout, struct {
		SchemaVersion int              `json:"schema_version"`
		Sessions      []answerJSON     `json:"sessions"`
		Missing       []fanout.Missing `json:"missing"`
	}{doc.JSONVersion, list, append([]fanout.Missing{}, missing...)})
	if err != nil {
		return err
	}
	return exit(answers)
}
