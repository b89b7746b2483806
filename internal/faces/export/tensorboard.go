package export

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/tensorboard"
)

// Create makes the file with a name below the directory that is written. What a session says becomes part of a name by
// rootdir.Element.
type Create func(name string) (io.Writer, error)

// TensorBoard writes an event file for each process, as a run of its own: scalars by step, or by second for processes
// that make none, and the verdict as a text. A process with none of these has no run: importing PyTorch starts an
// ldconfig, which a reading may meet.
func TensorBoard(ctx context.Context, s api.Session, create Create) (notes []string, err error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	list, left, err := processes(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := findings(ctx, s)
	if err != nil {
		return nil, err
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("the %d smallest processes are left out", left))
	}
	for _, p := range list {
		if p.Steps == 0 && !p.Curve && !slices.ContainsFunc(found, func(f finding) bool { return f.PID == p.PID }) {
			continue
		}
		dir := rootdir.Element(strings.ReplaceAll(p.name(), " ", ""))
		file, err := create(dir + "/" + rootdir.Element(tensorboard.FileName(about.Started, about.Host)))
		if err != nil {
			return nil, err
		}
		r := &run{Writer: tensorboard.New(file, about.Started), ctx: ctx, s: s, process: p, began: about.Started}
		if err := r.write(found); err != nil {
			return nil, err
		}
		if k := stride(p.Steps); k > 1 {
			notes = append(notes, fmt.Sprintf("%s: one step in %d is written", p.name(), k))
		}
	}
	return notes, nil
}

// run is the state while a process is written to its file.
type run struct {
	*tensorboard.Writer
	ctx     context.Context
	s       api.Session
	process process
	began   time.Time
}

func (r *run) write(found []finding) error {
	var err error
	if r.process.Steps > 0 {
		err = r.steps()
	} else {
		err = r.seconds()
	}
	if err != nil {
		return err
	}
	r.verdict(found)
	return r.Close()
}

func (r *run) steps() error {
	sql := questions.StepPoints(r.process.PID, stride(r.process.Steps))
	return api.Each(r.ctx, r.s, string(sql), func(row questions.StepPoint) error {
		device := text(row.Device)
		r.scalars(row.At, row.Step, []named{{"step/duration_seconds", row.Duration},
			{"device/" + device + "/allocated_bytes", row.Allocated},
			{"device/" + device + "/max_allocated_bytes", row.Highest},
			{"device/" + device + "/reserved_bytes", row.Reserved},
			{"process/rss_bytes", row.RSS}, {"process/anon_bytes", row.Anon},
			{"process/heap_in_use_bytes", row.HeapInUse}})
		return r.Err()
	})
}

// seconds writes the kernel's figures, with seconds since the session began instead of steps.
func (r *run) seconds() error {
	sql := questions.MemoryPoints(r.process.PID, maxPoints)
	return api.Each(r.ctx, r.s, string(sql), func(row questions.MemoryPoint) error {
		r.scalars(row.At, (row.At-r.began.UnixMicro())/1_000_000, []named{{"process/rss_bytes", row.RSS},
			{"process/anon_bytes", row.Anon}, {"process/file_bytes", row.File}, {"process/shmem_bytes", row.Shmem},
			{"process/swap_bytes", row.Swap}})
		return r.Err()
	})
}

type named struct {
	tag   string
	value *float64
}

// scalars writes the known values.
func (r *run) scalars(at, step int64, all []named) {
	values := make([]tensorboard.Scalar, 0, len(all))
	for _, n := range all {
		if n.value != nil {
			values = append(values, tensorboard.Scalar{Tag: n.tag, Value: *n.value})
		}
	}
	r.Scalars(time.UnixMicro(at), step, values)
}

// verdict writes the findings about the process as a list in Markdown.
func (r *run) verdict(found []finding) {
	var b strings.Builder
	last := int64(0)
	for _, f := range found {
		if f.PID != r.process.PID {
			continue
		}
		last = max(last, int64(f.End))
		fmt.Fprintf(&b, "- **%s**\n", f.title())
		for _, line := range append([]string{f.Site, f.Reason}, f.Advice...) {
			if line != "" {
				fmt.Fprintf(&b, "  - %s\n", line)
			}
		}
	}
	if b.Len() > 0 {
		r.Text(r.began, last, "verdict", b.String())
	}
}
