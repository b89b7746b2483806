package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
)

// Question is what a command asks of each session that is meant, and how an answer is shown. The command need not know
// how many there are.
type Question[T any] struct {
	Role source.Role
	Ask  func(ctx context.Context, t ask.Target) (T, error)
	JSON bool
	// Endless is what may take any time, such as code of the user's. All else has source.NodeTime of a node.
	Endless bool
	// Text writes an answer for people. Beside writes what is told beside it on standard error; it may be nil.
	Text   func(w io.Writer, v T) error
	Beside func(w io.Writer, v T)
	// Document is the answer as JSON.
	Document func(v T) any
	// Outcome is the exit code that an answer means. It may be nil.
	Outcome func(v T) error
	// Save writes an answer to the file that a flag names, which has room for one; nil for no file.
	Save func(v T) error
}

// Put asks a question of all sessions that are meant, and prints what they answer.
func Put[T any](ctx context.Context, a *App, q Question[T]) error {
	if err := a.Needs(q.Role); err != nil {
		return err
	}
	list, err := a.Members(ctx)
	if err != nil {
		return err
	}
	if a.source.Narrow() {
		v, err := q.Ask(ctx, list[0].Target)
		if err != nil {
			return err
		}
		return q.Print(a, v)
	}
	if q.Save != nil {
		return a.OneFile()
	}
	most := source.NodeTime
	if q.Endless {
		most = 0
	}
	answers := source.Ask(ctx, list, most, func(ctx context.Context, m source.Member) (T, error) {
		return q.Ask(ctx, m.Target)
	})
	if !q.JSON {
		return q.Show(a, answers)
	}
	sessions, err := q.Documents(answers)
	if err == nil {
		err = doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int              `json:"schema_version"`
			Sessions      []AnswerJSON     `json:"sessions"`
			Missing       []fanout.Missing `json:"missing"`
		}{doc.JSONVersion, sessions, a.Missing()})
	}
	if err != nil {
		return err
	}
	return q.worst(answers)
}

// OneFile refuses a flag that names a file for the answers of several sessions.
func (a *App) OneFile() error {
	return Usage(remedy.Add(fmt.Errorf("%s: a file has one session's answer, and several are meant", a.command),
		"node=NAME or rank=N says which; --json prints all of them"))
}

// Missing are the nodes that did not answer.
func (a *App) Missing() []fanout.Missing { return append([]fanout.Missing{}, a.missing...) }

// Print prints the answer of one session; nothing where that fails.
func (q Question[T]) Print(a *App, v T) error {
	if q.Save != nil {
		if err := q.Save(v); err != nil {
			return err
		}
	}
	var out bytes.Buffer
	q.tell(a.Stderr, v)
	err := q.write(&out, v)
	if err == nil {
		_, err = a.Answer(q.JSON).Write(out.Bytes())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", a.command, err)
	}
	return q.outcome(v)
}

func (q Question[T]) write(out io.Writer, v T) error {
	if q.JSON {
		return doc.WriteJSON(out, q.Document(v))
	}
	return q.Text(out, v)
}

func (q Question[T]) tell(w io.Writer, v T) {
	if q.Beside != nil {
		q.Beside(w, v)
	}
}

func (q Question[T]) outcome(v T) error {
	if q.Outcome == nil {
		return nil
	}
	return q.Outcome(v)
}

// end is what a session's answer means for the exit code.
func (q Question[T]) end(s source.Answer[T]) error {
	if s.Err != nil {
		return s.Err
	}
	return q.outcome(s.Value)
}

// worst is the exit code of several: what failed counts more than what was found, and that more than nothing.
func (q Question[T]) worst(answers []source.Answer[T]) error {
	worst := exitFine
	for _, s := range answers {
		if code := report(io.Discard, q.end(s)); code == ExitFindings && worst == exitFine ||
			code != exitFine && code != ExitFindings {
			worst = code
		}
	}
	if worst == exitFine {
		return nil
	}
	return Exit(worst, nil)
}

// shown is what is printed for all sessions that have the same to say.
type shown struct {
	out, notes bytes.Buffer
	code       int
	of         []fanout.Session
}

// Show prints what was found first, and what reads the same once.
func (q Question[T]) Show(a *App, answers []source.Answer[T]) error {
	same, order := map[string]*shown{}, []*shown{}
	for _, s := range answers {
		one := &shown{}
		err := s.Err
		if err == nil {
			q.tell(&one.notes, s.Value)
			err = q.Text(&one.out, s.Value)
		}
		if err == nil {
			err = q.outcome(s.Value)
		}
		one.code = report(&one.notes, err)
		key := one.out.String() + "\x00" + one.notes.String()
		if same[key] == nil {
			same[key] = one
			order = append(order, one)
		}
		same[key].of = append(same[key].of, s.Session)
	}
	slices.SortStableFunc(order, func(x, y *shown) int { return place(x.code) - place(y.code) })
	out := a.Text()
	for _, one := range order {
		fmt.Fprintf(out, "%s\n", Title(one.of))
		_, _ = out.Write(one.out.Bytes())
		_, _ = a.Stderr.Write(one.notes.Bytes())
		fmt.Fprintln(out)
	}
	return q.worst(answers)
}

// place is where answers with an exit code stand.
func place(code int) int {
	switch code {
	case ExitFindings:
		return 0
	case exitFine:
		return 2
	}
	return 1
}

// AnswerJSON is one session's answer in a document of many.
type AnswerJSON struct {
	Job      string          `json:"job"`
	Node     string          `json:"node"`
	Session  string          `json:"session"`
	Name     string          `json:"name"`
	Ranks    []int           `json:"ranks"`
	ExitCode int             `json:"exit_code"`
	Answer   json.RawMessage `json:"answer"` // the command's own document; null where it failed
	Error    string          `json:"error,omitempty"`
}

// Documents are the answers in a document of many.
func (q Question[T]) Documents(answers []source.Answer[T]) ([]AnswerJSON, error) {
	list := []AnswerJSON{}
	for _, s := range answers {
		one := AnswerJSON{Job: s.Job, Node: s.Node, Session: s.About.ID, Name: s.About.Name,
			Ranks: append([]int{}, s.Ranks...), Answer: json.RawMessage("null")}
		if s.Err == nil {
			var text bytes.Buffer
			if err := doc.WriteJSON(&text, q.Document(s.Value)); err != nil {
				return nil, err
			}
			one.Answer = text.Bytes()
		}
		var said bytes.Buffer
		if s.Err == nil {
			q.tell(&said, s.Value)
		}
		one.ExitCode = report(&said, q.end(s))
		one.Error = strings.TrimSpace(said.String())
		list = append(list, one)
	}
	return list, nil
}

// maxNamed bounds how many nodes of a group are named.
const maxNamed = 8

// Title names the sessions that say the same, in one line: names are what nodes say.
func Title(of []fanout.Session) string { return plain.Line(title(of)) }

func title(of []fanout.Session) string {
	s := of[0]
	if len(of) == 1 {
		text := fmt.Sprintf("node %s, job %s", s.Node, s.Job)
		if len(s.Ranks) > 0 {
			text += ", ranks " + Numbers(s.Ranks)
		}
		return text + ", session " + s.About.Name
	}
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.Node
	}
	return fmt.Sprintf("%d sessions alike: nodes %s", len(of), SomeOf(names))
}

// SomeOf names a few of many.
func SomeOf(list []string) string { return doc.SomeOf(list, maxNamed) }

// Numbers lists ranks or PIDs, runs of them as 0-63.
func Numbers(list []int) string {
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
