package ask

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/fleet/fanout"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
)

// listedJSON is a session of the fleet.
type listedJSON struct {
	Job      string    `json:"job"`
	Node     string    `json:"node"`
	NodeRank int       `json:"node_rank"`
	World    *int      `json:"world_size"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Dir      string    `json:"dir"`
	PIDs     []int     `json:"pids"`
	Ranks    []int     `json:"ranks"`
	Command  []string  `json:"command"`
	Started  time.Time `json:"started"`
	State    string    `json:"state"`
}

// listHub lists the sessions of all nodes.
func (a *commands) listHub(ctx context.Context, o listOptions) error {
	s, err := a.Source()
	if err != nil {
		return err
	}
	s.Select.Finished = o.all
	list, missing, err := s.Fleet.Sessions(ctx, s.Select)
	if err != nil {
		return fmt.Errorf("list: %w", err)
	}
	a.Miss(missing)
	if o.json {
		return doc.WriteJSON(a.Stdout, struct {
			SchemaVersion int              `json:"schema_version"`
			Sessions      []listedJSON     `json:"sessions"`
			Missing       []fanout.Missing `json:"missing"`
		}{doc.JSONVersion, listedDocument(list), a.Missing()})
	}
	if len(list) == 0 {
		_, err := fmt.Fprintln(a.Stderr,
			"memgauge: no node has a live session; memgauge hub list -a shows finished ones")
		return err
	}
	width := term.TerminalWidth(a.Stdout)
	l := &doc.Listing{Head: []model.Column{doc.Text("job"), doc.Text("node"), doc.Text("name"), doc.Text("id"),
		doc.Text("ranks"), doc.Text("pids"), doc.Text("command"), doc.Text("started"), doc.Text("state")}}
	for _, s := range list {
		started := s.About.Started.UTC().Format(time.RFC3339)
		if width > 0 {
			started = units.Age(s.About.Started, time.Now())
		}
		l.Rows = append(l.Rows, []any{s.Job, s.Node, s.About.Name, s.About.ID, app.Numbers(s.Ranks),
			app.Numbers(s.PIDs), strings.Join(s.About.Command, " "), started, s.State})
	}
	return render.Write(a.Text(), l, render.Table, render.Options{Width: width, NoRows: true,
		Whole: "nothing is left out with --json or in a pipe", Spare: []string{"id", "started", "pids", "command"}})
}

func listedDocument(list []fanout.Session) []listedJSON {
	out := []listedJSON{}
	for _, s := range list {
		one := listedJSON{Job: s.Job, Node: s.Node, NodeRank: s.NodeNum, ID: s.About.ID, Name: s.About.Name,
			Dir: s.About.Dir, PIDs: append([]int{}, s.PIDs...), Ranks: append([]int{}, s.Ranks...),
			Command: append([]string{}, s.About.Command...), Started: s.About.Started.UTC(), State: s.State}
		if s.World > 0 {
			one.World = &s.World
		}
		out = append(out, one)
	}
	return out
}
