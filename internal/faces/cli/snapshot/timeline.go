package snapshot

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/web"
	"github.com/memgauge/memgauge/internal/record/sink"
)

func (a *commands) snapshotTimelineCommand(shared *snapshotOptions) *cobra.Command {
	var output string
	c := &cobra.Command{
		Use:   "timeline FILE -o OUTPUT.html",
		Short: "A memory snapshot over time, as one page that needs no server",
		Long: "Writes the page that memgauge web --snapshot shows into one file: the blocks over time, to zoom\n" +
			"in and to point at, with their stacks; what was live at the peak, at the end, at OOMs and at\n" +
			"some other moments; flame graphs of the peak and of the end; a map of the segments. The file\n" +
			"asks nobody anything and opens without a network. Of a long history it has the whole, and its\n" +
			"parts as finely as some megabytes have room for; memgauge web zooms down to a single event.",
		Example: "  memgauge snapshot timeline snapshot.pickle -o timeline.html\n" +
			"  ssh node7 cat snapshot.pickle | memgauge snapshot timeline - -o timeline.html",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.snapshotTimeline(cmd.Context(), shared, output, args[0])
		},
	}
	c.Flags().StringVarP(&output, "output", "o", "", "write to `OUTPUT`")
	return c
}

func (a *commands) snapshotTimeline(ctx context.Context, s *snapshotOptions, output, path string) error {
	switch {
	case output == "":
		return app.Usage(fmt.Errorf("snapshot timeline: -o OUTPUT is missing"))
	case !strings.HasSuffix(strings.ToLower(output), ".html"):
		return app.Usage(remedy.Add(fmt.Errorf("snapshot timeline: -o %s: unknown kind of file", output),
			"end the name in .html"))
	}
	h, size, err := a.readHistory(ctx, s, path)
	if err != nil {
		return fmt.Errorf("snapshot timeline: %s: %w", path, err)
	}
	defer h.Close()
	out, err := sink.CreateFrom(output, path)
	if err != nil {
		return fmt.Errorf("snapshot timeline: %w", err)
	}
	defer out.Discard()
	if err := web.WriteTimeline(ctx, out, h, filepath.Base(path), size, app.Version); err != nil {
		return fmt.Errorf("snapshot timeline: %s: %w", path, err)
	}
	return out.Commit()
}
