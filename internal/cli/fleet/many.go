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

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/doc"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/plain"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/units"
)

const (
	// atOnce bounds how many sessions are asked at a time: each holds its answer in memory.
	atOnce = 64
	// maxMissing bounds the lines about nodes that did not answer.
	maxMissing = 20
)

// many are the commands that make sense for many sessions at once.
var many = []string{"query", "tables", "leak", "where", "list", "backtrace", "tensors", "oom", "report", "eval", "web"}

// run asks every session that the endpoint means.
func (q *question) run(ctx context.Context) error {
	command := q.args[0]
	if !app.IsCommand(q.root, command) || !asksSessions(q.root, command) {
		return app.Usage(remedy.Add(fmt.Errorf("%q can't be asked of other machines", command),
			"these can: "+strings.Join(many, ", ")))
	}
	if slices.Contains(q.args, "--help") || slices.Contains(q.args, "-h") {
		q.root.SetArgs(q.args)
		return q.root.ExecuteContext(ctx)
	}
	conn, err := q.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	asker := fanout.NewAsker(conn, q.wait)
	if q.comparesRanks() && q.sel.Rank == nil && q.sel.Node == "" {
		return q.leak(ctx, asker)
	}
	if taken, err := q.fromLake(ctx, asker); taken || err != nil {
		return err
	}
	q.sel.Finished = command == "list" && (slices.Contains(q.args, "-a") || slices.Contains(q.args, "--all"))
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
	command := q.args[0]
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
	if slices.Contains(q.args, "--json") {
		return q.document(answers, missing)
	}
	return q.show(answers)
}

// asksOne says that the command's answers can't be put together: only one session can be asked.
func (q *question) asksOne() bool {
	switch q.args[0] {
	case "report":
		return !slices.Contains(q.args, "--json")
	case "eval":
		return !slices.Contains(q.args, "--all")
	}
	return !slices.Contains(many, q.args[0])
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
	if err == nil && q.strict && len(missing) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("%d nodes did not answer", len(missing)))
	}
	var code interface{ Error() string }
	if q.strict && len(missing) > 0 && errors.As(err, &code) {
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
	root := sub.RootCommand()
	root.SetArgs(q.args)
	return root.ExecuteContext(ctx)
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
			root := sub.RootCommand()
			root.SetArgs(q.args)
			a.code = sub.Report(root.ExecuteContext(ctx))
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
