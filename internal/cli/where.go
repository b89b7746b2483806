package cli

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

	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/picture"
	"github.com/memgauge/memgauge/internal/proc"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/report"
	"github.com/memgauge/memgauge/internal/sampler"
	"github.com/memgauge/memgauge/internal/session"
	"github.com/memgauge/memgauge/internal/units"
)

func (a *app) whereCommand() *cobra.Command {
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
		Args: alone,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.where(cmd.Context(), asJSON) },
	}
	c.Flags().BoolVar(&asJSON, "json", false, "as JSON (docs/cli-json.md)")
	return c
}

func (a *app) where(ctx context.Context, asJSON bool) error {
	p, title, err := a.picture(ctx)
	if err != nil {
		return fmt.Errorf("where: %w", err)
	}
	if asJSON {
		if p.Processes == nil {
			p.Processes = []picture.Process{}
		}
		return writeJSON(a.stdout, struct {
			SchemaVersion int    `json:"schema_version"`
			Of            string `json:"of"`
			picture.Picture
		}{jsonVersion, title, p})
	}
	return writePicture(a.text(), title, p, terminalWidth(a.stdout))
}

// picture takes it of a session, or of a process that belongs to none.
func (a *app) picture(ctx context.Context) (p picture.Picture, title string, err error) {
	t, err := a.target(ctx)
	if pid, perr := strconv.Atoi(a.endpoint); err != nil && errors.Is(err, session.ErrNone) && perr == nil &&
		a.sessionDir == "" {
		if _, gone := proc.New("/proc").Stat(pid); gone != nil {
			return p, "", err
		}
		p, err = pictureNow(ctx, nil, nil, []int{pid}, nil)
		return p, fmt.Sprintf("process %d and its children, now", pid), err
	}
	if err != nil {
		return p, "", err
	}
	backend, err := ask.Connect(ctx, t.Session)
	if err != nil {
		return p, "", err
	}
	defer backend.Close()
	return pictureOf(ctx, t.Session, backend)
}

// pictureOf takes it of a session: now, or when it held most.
func pictureOf(ctx context.Context, t *session.Session, backend ask.Backend) (p picture.Picture, title string,
	err error) {
	if t.Live() {
		title = "session " + t.Meta.Name + ", now"
		var roots []int
		procs := t.Askable()
		for _, x := range procs {
			roots = append(roots, x.PID)
		}
		if pid := t.Meta.Process.PID; pid > 0 {
			roots = append(roots, pid)
		}
		trainers, terr := picture.Trainers(ctx, backend)
		if terr != nil {
			return p, "", terr
		}
		p, err = pictureNow(ctx, procs, trainers, roots, picture.Heaps(ctx, procs))
	} else {
		title = "session " + t.Meta.Name + ", when it held most"
		p, err = picture.Recorded(ctx, backend)
	}
	if err != nil {
		return p, "", err
	}
	p.Devices, err = picture.Devices(ctx, backend)
	return p, title, err
}

// pictureNow reads the processes under roots. trainers have made steps.
func pictureNow(_ context.Context, procs []session.Process, trainers map[int]bool, roots []int,
	heaps map[int]*picture.Heap) (picture.Picture, error) {
	fs := proc.New("/proc")
	s := sampler.New(sampler.Options{Roots: func() []int { return roots }, About: func(pid int) sampler.About {
		about := sampler.Nothing
		about.Steps = trainers[pid]
		for _, p := range procs {
			if p.PID == pid {
				about.Rank, about.Trainer = int32(p.Rank), p.Torch && fs.Mapped(pid, "libtorch")
			}
		}
		return about
	}})
	defer s.Close()
	rows := s.Sample()
	var members []picture.Member
	var cgroup *proc.Cgroup
	for _, t := range rows.Tree {
		if t.Ended {
			continue
		}
		members = append(members, picture.Member{PID: int(t.PID), Role: t.Role, Command: t.Command, Rank: int(t.Rank),
			Heap: heaps[int(t.PID)]})
	}
	if len(members) == 0 {
		return picture.Picture{}, remedy.Add(errors.New("none of its processes is there any more"),
			"memgauge list -a shows how the session ended")
	}
	if mounts, err := fs.CgroupMounts("/"); err == nil {
		if cg, err := fs.Cgroup(members[0].PID, mounts); err == nil {
			cgroup = &cg
		}
	}
	total := int64(0)
	if m, err := fs.Meminfo(); err == nil {
		total = m.Total
	}
	return picture.Take(fs, members, cgroup, total), nil
}

func writePicture(w io.Writer, title string, p picture.Picture, width int) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n", title)
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
	fmt.Fprintf(b, "HOST     %s charged, of %s\n", bytesOf(h.Charged), limit)
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
			fmt.Fprintf(b, "  %-14s %10s          %s\n", c.name, "?", c.about)
			continue
		}
		fmt.Fprintf(b, "  %-14s %10s  %s  %s\n", c.name, bytesOf(c.bytes), shareOf(c.bytes, h.Charged), c.about)
	}
	fmt.Fprintf(b, "  %-14s %10s  %s\n", "unexplained", bytesOf(h.Unexplained), shareOf(h.Unexplained, h.Charged))
	if h.Classes.Swap != nil && *h.Classes.Swap > 0 {
		fmt.Fprintf(b, "  swapped out besides: %s\n", bytesOf(h.Classes.Swap))
	}
	if h.Kernel != nil && h.Kernel.Anonymous != proc.Unknown {
		fmt.Fprintf(b, "  the kernel counts %s of anonymous memory, the processes add up to %s\n",
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
	l := &listing{columns: []model.Column{number("pid"), text("role"), number("pss"), number("rss"),
		number("heap in use"), number("heap free"),
		number("python"), number("anonymous"), number("stacks"), number("file"), number("shared"), number("pinned"),
		number("tables"), number("swap"), text("command")}}
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
		l.rows = append(l.rows, []any{strconv.Itoa(p.PID), role, bytesOf(p.PSS), units.Bytes(p.RSS).String(),
			bytesOf(c.HeapInUse), bytesOf(c.HeapFree), bytesOf(c.PythonArenas),
			bytesOf(c.Anonymous), bytesOf(c.Stacks), bytesOf(c.File), bytesOf(c.Shared), bytesOf(c.Pinned),
			bytesOf(c.PageTables), bytesOf(c.Swap), command})
	}
	return report.Write(w, l, report.Table, report.Options{Width: width, NoRows: true, Whole: wholeTables,
		Spare: []string{"tables", "swap", "pinned", "stacks", "rss", "python", "shared", "file", "command"}})
}

func writeDevice(b *bytes.Buffer, id string, d picture.Device) {
	fmt.Fprintf(b, "\nGPU %s    %s: %s used of %s\n", id, d.Name, bytesOf(d.Used), bytesOf(d.Total))
	for _, c := range []struct {
		name  string
		bytes *int64
	}{{"allocator, live", d.Live}, {"allocator, cached", d.Cached}, {"context and modules", d.Context},
		{"outside the allocator", d.Outside},
		{"other processes", d.Others}, {"the driver itself", d.Driver}} {
		fmt.Fprintf(b, "  %-22s %10s  %s\n", c.name, bytesOf(c.bytes), shareOf(c.bytes, d.Used))
	}
}
