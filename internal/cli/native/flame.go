package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/internal/flame"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/sink"
)

type flameOptions struct{ at, output string }

func (a *commands) flameCommand() *cobra.Command {
	var o flameOptions
	c := &cobra.Command{
		Use:   "flame -o OUTPUT",
		Short: "A flame graph of native memory, by C and Python stack",
		Long: "Draws the bytes that native code held at a moment by the stacks that allocated them: " +
			"Python's frames, and above them those of\n" +
			"C. Moments: peak (when a process held most), now (the newest reading; of a process that " +
			"ended, its end), growth (what is\n" +
			"held now and was not after a quarter of the recorded time). OUTPUT's name says how: .html " +
			"(a page to zoom in, without a\n" +
			"server), .svg, .folded (for flamegraph.pl), .speedscope.json, .pb.gz (for go tool pprof).",
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

func (a *commands) flame(ctx context.Context, o flameOptions) error {
	write := writer(o.output)
	if o.output == "" {
		return app.Usage(errors.New("-o OUTPUT is missing"))
	} else if write == nil {
		return app.Usage(remedy.Add(fmt.Errorf("-o %s: unknown kind of file", o.output),
			"end the name in .html, .svg, .folded, .speedscope.json or .pb.gz"))
	}
	if o.at != "growth" {
		if _, err := moment(o.at); err != nil {
			return app.Usage(fmt.Errorf("--at: %w", err))
		}
	}
	s, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	g := flame.New("native memory, " + o.at)
	if err := s.draw(ctx, g, o.at); err != nil {
		return err
	}
	out, err := sink.Create(o.output)
	if err != nil {
		return err
	}
	defer out.Discard()
	if err := write(g, out); err != nil {
		return fmt.Errorf("%s: %w", o.output, err)
	}
	return out.Commit()
}

// draw adds each stack with what it holds at the moment, or has gained.
func (s session) draw(ctx context.Context, g *flame.Graph, at string) error {
	frames, err := s.frames(ctx)
	if err != nil {
		return err
	}
	if at == "growth" {
		list, err := s.between(ctx, "settled", "now")
		for _, d := range list {
			if d.Grown > 0 {
				g.Add(frames[d.Stack], d.Grown, false)
			}
		}
		return err
	}
	list, err := s.at(ctx, at)
	for _, h := range list {
		g.Add(frames[h.Stack], h.Bytes, false)
	}
	return err
}
