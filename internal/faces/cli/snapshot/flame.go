package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/flame"
	"github.com/memgauge/memgauge/internal/judge/anatomy"
	"github.com/memgauge/memgauge/internal/record/sink"
)

const bySegment = "segment"

type flameOptions struct {
	at, by, diff, output string
	device               int
}

func (a *commands) snapshotFlameCommand(shared *snapshotOptions) *cobra.Command {
	var o flameOptions
	c := &cobra.Command{
		Use:   "flame FILE -o OUTPUT",
		Short: "A flame graph of what was live at one moment of a memory snapshot",
		Long: "Draws the bytes that were live at a moment by the stacks that allocated them. OUTPUT's name\n" +
			"says how: .html (a page to zoom in, without a server), .svg, .folded (for flamegraph.pl),\n" +
			".speedscope.json, .pb.gz (for go tool pprof). With --diff OTHER the colours show what FILE has\n" +
			"more (red) and less (blue) than OTHER at the same moment; .html and .svg only. --by segment\n" +
			"draws what the allocator had from the driver at the end: pools, segments, their blocks by\n" +
			"stack, what is free, and what blocks have beyond what was asked for.",
		Example: "  memgauge snapshot flame snapshot.pickle -o peak.html\n" +
			"  memgauge snapshot flame snapshot.pickle --at 12.5s -o then.speedscope.json\n" +
			"  memgauge snapshot flame snapshot.pickle --by segment -o segments.html\n" +
			"  memgauge snapshot flame after.pickle --diff before.pickle --at end -o grown.svg",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.by == bySegment && !cmd.Flags().Changed("at") {
				o.at = "end"
			}
			return a.snapshotFlame(cmd.Context(), shared, o, args[0])
		},
	}
	f := c.Flags()
	f.StringVar(&o.at, "at", "peak", "peak, end, the number of an event, or a time after the first (`MOMENT`)")
	f.StringVar(&o.by, "by", "stack", "stack, or segment: all that the allocator had at the end")
	app.Check(f, "at", anatomy.CheckMoment)
	f.StringVar(&o.diff, "diff", "", "compare with the snapshot in `OTHER`")
	f.StringVarP(&o.output, "output", "o", "", "write to `OUTPUT`")
	f.IntVar(&o.device, "device", -1, "the device `N`, if several have a history")
	f.Lookup("device").DefValue = "0" // what pflag takes for no default worth printing
	return c
}

// flameWriter returns the function that writes the format of a file's extension.
func flameWriter(name string) (write func(*flame.Graph, io.Writer) error, compares bool) {
	lower := strings.ToLower(name)
	for _, k := range []struct {
		end      string
		write    func(*flame.Graph, io.Writer) error
		compares bool
	}{
		{".html", (*flame.Graph).WriteHTML, true}, {".svg", (*flame.Graph).WriteSVG, true},
		{".folded", (*flame.Graph).WriteFolded, false}, {".speedscope.json", (*flame.Graph).WriteSpeedscope, false},
		{".pb.gz", (*flame.Graph).WritePprof, false},
	} {
		if strings.HasSuffix(lower, k.end) {
			return k.write, k.compares
		}
	}
	return nil, false
}

func (a *commands) snapshotFlame(ctx context.Context, s *snapshotOptions, o flameOptions, path string) error {
	write, compares := flameWriter(o.output)
	switch {
	case o.output == "":
		return app.Usage(fmt.Errorf("snapshot flame: -o OUTPUT is missing"))
	case write == nil:
		return app.Usage(remedy.Add(fmt.Errorf("snapshot flame: -o %s: unknown kind of file", o.output),
			"end the name in .html, .svg, .folded, .speedscope.json or .pb.gz"))
	case o.diff != "" && !compares:
		return app.Usage(remedy.Add(fmt.Errorf("snapshot flame: -o %s has no place for a comparison", o.output),
			"write .html or .svg"))
	}
	if o.by == bySegment && (o.diff != "" || o.at != "end") || o.by != bySegment && o.by != "stack" {
		return app.Usage(remedy.Add(fmt.Errorf("snapshot flame: --by %s can't be had of this", o.by),
			"--by stack, or --by segment of the end of one file"))
	}
	g := flame.New(fmt.Sprintf("%s, live at %s", filepath.Base(path), o.at))
	if o.by == bySegment {
		g.Title = filepath.Base(path) + ", reserved at the end"
	}
	g.Bound(int64(s.memory))
	g.Compare = o.diff != ""
	if g.Compare {
		g.Title = fmt.Sprintf("%s against %s, live at %s", filepath.Base(path), filepath.Base(o.diff), o.at)
		if err := a.addFlame(ctx, s, o, g, o.diff, true); err != nil {
			return fmt.Errorf("snapshot flame: %w", err)
		}
	}
	if err := a.addFlame(ctx, s, o, g, path, false); err != nil {
		return fmt.Errorf("snapshot flame: %w", err)
	}
	out, err := sink.CreateFrom(o.output, path, o.diff)
	if err != nil {
		return fmt.Errorf("snapshot flame: %w", err)
	}
	defer out.Discard()
	if err := write(g, out); err != nil {
		return fmt.Errorf("snapshot flame: %s: %w", o.output, err)
	}
	if g.Cut > 0 {
		plain.Fprintf(a.Stderr, "memgauge: %s of those that hold least are cut short: there are too many frames\n",
			doc.Plural(g.Cut, "stack"))
	}
	return out.Commit()
}

// addFlame reads a file and adds its live blocks to the graph.
func (a *commands) addFlame(ctx context.Context, s *snapshotOptions, o flameOptions, g *flame.Graph, path string,
	before bool) error {
	if done, err := cachedFlame(ctx, o, g, path, before); done {
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	}
	h, _, err := a.readHistory(ctx, s, path)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer h.Close()
	d, row, err := momentOf(h, o)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if o.by == bySegment {
		h.FlameSegments(g, d)
	} else {
		h.Flame(g, d, row, before)
	}
	return nil
}

func momentOf(h *anatomy.History, o flameOptions) (*anatomy.Device, int, error) {
	d, err := h.Device(o.device)
	if err != nil {
		if !errors.Is(err, anatomy.ErrNoDevice) {
			err = remedy.Add(err, "--device N chooses one")
		}
		return nil, 0, err
	}
	row, err := h.Moment(d, o.at)
	if err != nil {
		return nil, 0, fmt.Errorf("--at: %w", err)
	}
	return d, row, nil
}
