package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/flame"
)

// holding is what one holder has, at the last census of its process.
type holding struct{ questions.Holding }

// Pprof writes who holds the memory, for `go tool pprof`: stacks of process, kind and holder, and as the holder's place
// the line that creates what it holds. Of a live job a census is taken first.
func Pprof(ctx context.Context, s api.Session, w io.Writer) (notes []string, err error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	if notes, err = census(ctx, s); err != nil {
		return nil, err
	}
	rows, err := api.Ask(ctx, s, questions.Holdings)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, remedy.Add(errors.New("no census of the session names who holds memory"),
			"memgauge tensors takes one while the job runs")
	}
	g := flame.New("memgauge session " + about.Name + ": bytes by holder")
	for _, h := range rows {
		g.Add(holding{h}.stack(), h.Bytes, false)
	}
	if g.Comments, err = asOf(ctx, s); err != nil {
		return nil, err
	}
	return notes, g.WritePprof(w)
}

// asOf says for each process which census counts.
func asOf(ctx context.Context, s api.Session) (lines []string, err error) {
	rows, err := api.Ask(ctx, s, questions.Censuses())
	for _, r := range rows {
		line := fmt.Sprintf("process %d: census %d", r.PID, r.ID)
		if r.Step != nil {
			line += fmt.Sprintf(" after step %d", *r.Step)
		}
		if line += ", " + r.Time; r.Note != "" {
			line += "; " + r.Note
		}
		lines = append(lines, line)
	}
	return lines, err
}

// census takes a census of the live processes. If it fails for one, that is noted, and an earlier census is used.
func census(ctx context.Context, s api.Session) (notes []string, err error) {
	list, err := s.Processes(ctx, api.ProcessesRequest{})
	if err != nil {
		return nil, err
	}
	chosen, err := api.Choose(list, api.Choice{All: true}, false)
	if err != nil {
		return nil, ctx.Err() // no process lives
	}
	var pids []int
	for _, p := range chosen {
		pids = append(pids, p.PID)
	}
	r, err := s.Census(ctx, api.CensusRequest{PIDs: pids})
	if err != nil {
		return nil, err
	}
	for _, c := range r.Censuses {
		if c.Error != nil {
			notes = append(notes, fmt.Sprintf("pid %d: %s", c.PID, c.Error.Message))
		}
	}
	return notes, nil
}

// stack is innermost first, as flame takes it.
func (h holding) stack() []flame.Frame {
	process := fmt.Sprintf("pid %d", h.PID)
	if h.Rank != nil {
		process = fmt.Sprintf("rank %d", *h.Rank)
	}
	holder := flame.Frame{Name: "(holder not known)"}
	if h.Holder != nil {
		holder.Name = *h.Holder
	}
	if file, line, ok := cutLast(text(h.Site), ":"); ok {
		holder.File = file
		holder.Line, _ = strconv.Atoi(line) // a site without a line has 0
	}
	return []flame.Frame{holder, {Name: h.What}, {Name: process}}
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}
