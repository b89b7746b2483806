package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/door/picture"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/source"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

func (a *commands) whereCommand() *cobra.Command {
	asJSON := false
	c := &cobra.Command{
		Use:   "where",
		Short: "Name every byte of a job: host and devices, process by process",
		Long: "Names every byte of the job's memory, process by process, and sets the sum against what the kernel counts for its cgroup or the\n" +
			"host; what is left is shown as unexplained. Of a live job it reads each process's maps now, which takes some 10 ms a GiB and\n" +
			"asks the agents for their heaps; of a finished one it shows the moment when most was held. A PID without a session works too,\n" +
			"without what agents know. docs/memory-picture.md says what each class is.",
		Example: "  memgauge where\n" +
			"  memgauge 27891 where --json\n" +
			"  memgauge where --session runs/last",
		Args: app.Alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.where(cmd.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (a *commands) where(ctx context.Context, asJSON bool) error {
	q := app.Question[api.Where]{Role: source.Where, JSON: asJSON, Ask: where,
		Text: func(w io.Writer, v api.Where) error {
			err := writePicture(w, v.Of, v.Picture, term.TerminalWidth(a.Stdout))
			for _, u := range v.Unsampled {
				plain.Fprintf(w, "\nNATIVE   %s\n", u)
			}
			for _, p := range v.Peaks {
				plain.Fprintf(w, "\nPEAK     %s\n  do  %s\n", p, p.Advice)
			}
			return err
		},
		Document: whereDocument}
	if _, err := a.Members(ctx); err != nil {
		w, err := a.alone(err)
		if err != nil {
			return fmt.Errorf("where: %w", err)
		}
		return q.Print(a.App, w)
	}
	return app.Put(ctx, a.App, q)
}

func where(ctx context.Context, t ask.Target) (w api.Where, err error) {
	s, err := t.Connect(ctx)
	if err == nil {
		defer s.Close()
		w, err = s.Where(ctx)
	}
	if err != nil {
		return w, fmt.Errorf("where: %w", err)
	}
	return w, nil
}

// alone lists the bytes of a process that belongs to no session, where err says that a PID has none.
func (a *commands) alone(err error) (api.Where, error) {
	pid := a.Endpoint.PID
	if !errors.Is(err, ask.ErrNone) || pid == 0 || a.SessionDir != "" {
		return api.Where{}, err
	}
	w, werr := ask.WhereOf(pid)
	if errors.Is(werr, ask.ErrGone) {
		return w, err
	}
	return w, werr
}

func whereDocument(w api.Where) any {
	if w.Processes == nil {
		w.Processes = []picture.Process{}
	}
	if w.Peaks == nil {
		w.Peaks = []detect.Peak{}
	}
	return struct {
		SchemaVersion int `json:"schema_version"`
		api.Where
	}{doc.JSONVersion, w}
}

func writePicture(w io.Writer, title string, p picture.Picture, width int) error {
	var b bytes.Buffer
	plain.Fprintf(&b, "%s\n\n", title)
	writeHost(&b, p.Host)
	if len(p.Processes) > 0 {
		b.WriteByte('\n')
		if err := writeProcesses(&b, p.Processes, width); err != nil {
			return err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(p.Devices)) {
		writeDevice(&b, id, p.Devices[id])
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeHost(b *bytes.Buffer, h picture.Host) {
	limit := "the host's " + bytesOf(h.Limit)
	if h.LimitKind == "cgroup" {
		limit = fmt.Sprintf("the %s of cgroup %s", bytesOf(h.Limit), h.Cgroup)
	}
	plain.Fprintf(b, "HOST     %s charged, of %s\n", bytesOf(h.Charged), limit)
	for _, c := range []struct {
		name  string
		bytes *int64
		about string
	}{
		{"heap in use", h.Classes.HeapInUse, "handed out by malloc: tensors on the CPU, buffers"},
		{"heap free", h.Classes.HeapFree, "held by malloc, not handed out"},
		{"Python arenas", h.Classes.PythonArenas, "Python's small objects"},
		{"anonymous", h.Classes.Anonymous, "other anonymous maps"},
		{"stacks", h.Classes.Stacks, "of threads"},
		{"file", h.Classes.File, "mapped files and page cache"},
		{"shared", h.Classes.Shared, "/dev/shm, memfd, shared maps: tensors on their way from workers"},
		{"pinned", h.Classes.Pinned, "locked, or pinned for devices"},
		{"page tables", h.Classes.PageTables, ""},
		{"kernel", h.Classes.Kernel, "thread stacks, slab, sockets in the kernel"},
	} {
		if c.bytes == nil {
			plain.Fprintf(b, "  %-14s %10s          %s\n", c.name, "?", c.about)
			continue
		}
		plain.Fprintf(b, "  %-14s %10s  %s  %s\n", c.name, bytesOf(c.bytes), shareOf(c.bytes, h.Charged), c.about)
	}
	plain.Fprintf(b, "  %-14s %10s  %s\n", "unexplained", bytesOf(h.Unexplained), shareOf(h.Unexplained, h.Charged))
	if h.Classes.Swap != nil && *h.Classes.Swap > 0 {
		plain.Fprintf(b, "  swapped out besides: %s\n", bytesOf(h.Classes.Swap))
	}
	if h.Kernel != nil && h.Kernel.Anonymous >= 0 {
		plain.Fprintf(b, "  the kernel counts %s of anonymous memory, the processes add up to %s\n",
			units.Bytes(h.Kernel.Anonymous), units.Bytes(h.Kernel.Processes))
	}
}

func bytesOf(n *int64) string {
	if n == nil {
		return "?"
	}
	if *n < 0 {
		return "-" + units.Bytes(-*n).String()
	}
	return units.Bytes(*n).String()
}

func shareOf(n, of *int64) string {
	if n == nil || of == nil || *of == 0 {
		return "       "
	}
	return fmt.Sprintf("%5.1f %%", 100*float64(*n)/float64(*of))
}

func writeProcesses(w io.Writer, list []picture.Process, width int) error {
	l := &doc.Listing{Head: []model.Column{doc.Number("pid"), doc.Text("role"), doc.Number("pss"), doc.Number("rss"),
		doc.Number("heap in use"), doc.Number("heap free"),
		doc.Number("python"), doc.Number("anonymous"), doc.Number("stacks"), doc.Number("file"), doc.Number("shared"),
		doc.Number("pinned"),
		doc.Number("tables"), doc.Number("swap"), doc.Text("command")}}
	for _, p := range list {
		role := p.Role
		if p.Rank != nil {
			role += " " + strconv.Itoa(*p.Rank)
		}
		command := p.Command
		if p.Note != "" {
			command += " (" + p.Note + ")"
		}
		c := p.Classes
		l.Rows = append(l.Rows, []any{strconv.Itoa(p.PID), role, bytesOf(p.PSS), units.Bytes(p.RSS).String(),
			bytesOf(c.HeapInUse), bytesOf(c.HeapFree), bytesOf(c.PythonArenas),
			bytesOf(c.Anonymous), bytesOf(c.Stacks), bytesOf(c.File), bytesOf(c.Shared), bytesOf(c.Pinned),
			bytesOf(c.PageTables), bytesOf(c.Swap), command})
	}
	return render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true, Whole: doc.WholeTables,
		Spare: []string{"tables", "swap", "pinned", "stacks", "rss", "python", "shared", "file", "command"}})
}

func writeDevice(b *bytes.Buffer, id string, d picture.Device) {
	plain.Fprintf(b, "\nGPU %s    %s: %s used of %s\n", id, d.Name, bytesOf(d.Used), bytesOf(d.Total))
	for _, c := range []struct {
		name  string
		bytes *int64
	}{{"allocator, live", d.Live}, {"allocator, cached", d.Cached}, {"context and modules", d.Context},
		{"outside the allocator", d.Outside},
		{"other processes", d.Others}, {"the driver itself", d.Driver}} {
		plain.Fprintf(b, "  %-22s %10s  %s\n", c.name, bytesOf(c.bytes), shareOf(c.bytes, d.Used))
	}
}
