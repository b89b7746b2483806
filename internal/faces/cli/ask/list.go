package ask

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

type listOptions struct {
	all  bool
	json bool
}

func (a *commands) listCommand() *cobra.Command {
	var o listOptions
	c := &cobra.Command{
		Use:         "list",
		Annotations: app.AboutAllSessions(),
		Short:       "List live sessions, with -a finished ones too",
		Long: "Lists sessions: their names, processes and ranks, what they run and since when, how they ended, rows and disk space. A name,\n" +
			"an id or a PID from this list is an ENDPOINT of the other commands.",
		Example: "  memgauge list\n" +
			"  memgauge list -a\n" +
			"  memgauge list -a --json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.list(cmd.Context(), o) },
	}
	f := c.Flags()
	f.BoolVarP(&o.all, "all", "a", false, "finished sessions too")
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (a *commands) list(ctx context.Context, o listOptions) error {
	if a.Many() {
		return a.listHub(ctx, o)
	}
	sessions, left, err := ask.List(ctx, o.all)
	if note := ask.Elsewhere(); note != "" {
		plain.Fprintf(a.Stderr, "memgauge: %s\n", note)
	}
	if o.all || len(sessions) == 0 {
		a.tellLeftOut(left)
	}
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	if o.json {
		return writeListJSON(a.Answer(true), sessions)
	}
	if len(sessions) == 0 {
		_, err := plain.Fprintf(a.Stderr, "%s\n", nothingToList(o.all))
		return err
	}
	return writeList(a.Text(), sessions, term.TerminalWidth(a.Stdout), time.Now())
}

// mostLeftOut bounds the lines about sessions that can't be read.
const mostLeftOut = 5

func (a *commands) tellLeftOut(left []error) {
	for _, err := range left[:min(len(left), mostLeftOut)] {
		plain.Fprintf(a.Stderr, "memgauge: left out: %v\n", err)
	}
	if more := len(left) - mostLeftOut; more > 0 {
		plain.Fprintf(a.Stderr, "memgauge: left out: %d more\n", more)
	}
}

func nothingToList(all bool) string {
	if all {
		return "memgauge: no sessions yet; memgauge run -- python train.py starts one"
	}
	return "memgauge: no live session; memgauge list -a shows finished ones"
}

// writeList writes a line for each session. A terminal gets the time since a session began, a pipe the time itself.
func writeList(w io.Writer, sessions []api.Listed, width int, now time.Time) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("id"), doc.Text("name"), doc.Text("pids"), doc.Text("ranks"),
		doc.Text("command"),
		doc.Text("started"), doc.Text("state"),
		doc.Number("rows"), doc.Number("disk")}}
	for _, s := range sessions {
		started := s.Started.UTC().Format(time.RFC3339)
		if width > 0 {
			started = units.Age(s.Started, now)
		}
		l.Rows = append(l.Rows, []any{s.ID, s.Name, numbers(s.PIDs, width > 0), numbers(s.Ranks, width > 0),
			shellLine(s.Command), started, s.State,
			countText(s.Rows), units.Bytes(s.DiskBytes).String()})
	}
	return render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true,
		Whole: "nothing is left out with --json or in a pipe", Spare: []string{"rows", "disk", "ranks", "started",
			"pids", "command"}})
}

// numbers joins pids or ranks; on a terminal runs of them become 0-63.
func numbers(list []int, short bool) string {
	if short {
		return app.Numbers(list)
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// shellLine shows a command as a shell would take it.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, arg := range args {
		quoted[i] = arg
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"\\$`*?[]{}()<>|&;#~!") {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

type sessionJSON struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Dir       string     `json:"dir"`
	PIDs      []int      `json:"pids"`
	Ranks     []int      `json:"ranks"`
	Command   []string   `json:"command"`
	Started   time.Time  `json:"started"`
	Ended     *time.Time `json:"ended"`
	State     string     `json:"state"`
	Rows      *int64     `json:"rows"`
	DiskBytes int64      `json:"disk_bytes"`
}

func writeListJSON(w io.Writer, sessions []api.Listed) error {
	out := make([]sessionJSON, 0, len(sessions))
	for _, s := range sessions {
		var ended *time.Time
		if !s.Ended.IsZero() {
			at := s.Ended.UTC()
			ended = &at
		}
		out = append(out, sessionJSON{s.ID, s.Name, s.Dir, append([]int{}, s.PIDs...), append([]int{}, s.Ranks...),
			append([]string{}, s.Command...),
			s.Started.UTC(), ended, s.State, doc.KnownCount(s.Rows), s.DiskBytes})
	}
	return doc.WriteJSON(w, struct {
		SchemaVersion int           `json:"schema_version"`
		Sessions      []sessionJSON `json:"sessions"`
	}{doc.JSONVersion, out})
}
