package native

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type flameOptions struct {
	at, output string
	json       bool
}

func (a *commands) flameCommand() *cobra.Command {
	var o flameOptions
	c := &cobra.Command{
		Use:   "flame -o OUTPUT | --json",
		Short: "A flame graph of native memory, by C and Python stack",
		Long: "Draws the bytes that native code held at a moment by the stacks that allocated them: " +
			"Python's frames, and above them those of\n" +
			"C. Moments: peak (when a process held most), now (the newest reading; of a process that " +
			"ended, its end), growth (what is\n" +
			"held now and was not after a quarter of the recorded time). OUTPUT's name says how: .html " +
			"(a page to zoom in, without a\n" +
			"server), .svg, .folded (for flamegraph.pl), .speedscope.json, .pb.gz (for go tool pprof). " +
			"With --json the stacks are printed.",
		Example: "  memgauge native flame -o held.html\n" +
			"  memgauge native flame --at growth -o leak.pb.gz && go tool pprof -top leak.pb.gz\n" +
			"  memgauge -t resnet native flame --at peak -o peak.speedscope.json",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.flame(cmd.Context(), o); err != nil {
				return fmt.Errorf("native flame: %w", err)
			}
			return nil
		},
	}
	f := c.Flags()
	f.StringVar(&o.at, "at", "now", "peak, now, growth, or a time after the first reading such as 90s (`MOMENT`)")
	f.StringVarP(&o.output, "output", "o", "", "write to `OUTPUT`")
	f.BoolVar(&o.json, "json", false, "print the stacks as JSON (docs/cli-json.md)")
	return c
}

// writer is the way to write a file of that name.
func writer(name string) func(*flame.Graph, io.Writer) error {
	for end, write := range map[string]func(*flame.Graph, io.Writer) error{
		".html": (*flame.Graph).WriteHTML, ".svg": (*flame.Graph).WriteSVG, ".folded": (*flame.Graph).WriteFolded,
		".speedscope.json": (*flame.Graph).WriteSpeedscope, ".pb.gz": (*flame.Graph).WritePprof,
	} {
		if strings.HasSuffix(strings.ToLower(name), end) {
			return write
		}
	}
	return nil
}

// check finds what is wrong with the options, before a session is looked for.
func (o flameOptions) check() error {
	switch {
	case o.json && o.output != "":
		return errors.New("-o and --json exclude each other: --json prints")
	case !o.json && o.output == "":
		return errors.New("-o OUTPUT is missing")
	case !o.json && writer(o.output) == nil:
		return remedy.Add(fmt.Errorf("-o %s: unknown kind of file", o.output),
			"end the name in .html, .svg, .folded, .speedscope.json or .pb.gz")
	}
	if o.at != "growth" {
		if _, err := moment(o.at); err != nil {
			return fmt.Errorf("--at: %w", err)
		}
	}
	return nil
}

func (a *commands) flame(ctx context.Context, o flameOptions) error {
	if err := o.check(); err != nil {
		return app.Usage(err)
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	stacks, err := s.stacks(ctx, o.at)
	if err != nil {
		return err
	}
	if o.json {
		out := &sink.Spool{To: a.Answer(o.json)}
		defer out.Discard()
		if err := doc.WriteJSON(out, documentStacks(o.at, stacks)); err != nil {
			return err
		}
		return out.Commit()
	}
	g := flame.New("native memory, " + o.at)
	for _, s := range stacks {
		g.Add(s.frames, s.bytes, false)
	}
	out, err := sink.Create(o.output)
	if err != nil {
		return err
	}
	defer out.Discard()
	if err := writer(o.output)(g, out); err != nil {
		return fmt.Errorf("%s: %w", o.output, err)
	}
	return out.Commit()
}

// holding is a stack with what it holds at a moment, or has gained.
type holding struct {
	frames []flame.Frame // innermost first
	bytes  int64
}

// stacks lists them, the largest first.
func (s session) stacks(ctx context.Context, at string) (list []holding, err error) {
	frames, err := s.frames(ctx)
	if err != nil {
		return nil, err
	}
	if at == "growth" {
		changes, err := s.between(ctx, "settled", "now")
		for _, d := range changes {
			if d.Grown > 0 {
				list = append(list, holding{frames[d.Stack], d.Grown})
			}
		}
		order.Stable(list, func(a, b holding) int { return cmp.Compare(b.bytes, a.bytes) })
		return list, err
	}
	holders, err := s.at(ctx, at)
	for _, h := range holders {
		if h.Bytes > 0 {
			list = append(list, holding{frames[h.Stack], h.Bytes})
		}
	}
	return list, err
}

// flameDocument is that of --json.
type flameDocument struct {
	SchemaVersion int         `json:"schema_version"`
	At            string      `json:"at"`
	Bytes         int64       `json:"bytes"`
	Stacks        []jsonStack `json:"stacks"`
}

type jsonStack struct {
	Bytes  int64       `json:"bytes"`
	Frames []jsonFrame `json:"frames"`
}

type jsonFrame struct {
	Func string `json:"func"`
	File string `json:"file"`
	Line *int   `json:"lineno"`
}

func documentStacks(at string, stacks []holding) flameDocument {
	d := flameDocument{SchemaVersion: doc.JSONVersion, At: at, Stacks: []jsonStack{}}
	for _, s := range stacks {
		j := jsonStack{Bytes: s.bytes, Frames: []jsonFrame{}}
		for _, f := range s.frames {
			frame := jsonFrame{Func: f.Name, File: f.File}
			if f.Line > 0 {
				frame.Line = &f.Line
			}
			j.Frames = append(j.Frames, frame)
		}
		d.Bytes += s.bytes
		d.Stacks = append(d.Stacks, j)
	}
	return d
}
