package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/traceevent"
)

// sessionPID stands for the session itself among the processes: no pid of Linux is so large (PID_MAX_LIMIT is 2^22).
const sessionPID = 1<<22 + 1

// Lines of a process's slices.
const (
	stepLine = 1 + iota
	inferenceLine
	verdictLine // and those that follow: what was found of each memory has a line of its own
)

// maxVerdicts bounds the memories of a process that are shown, leaks first: there are a dozen kinds.
const maxVerdicts = 40

// trace is the state while a session is written to a file. Times are µs since the session began.
type trace struct {
	*traceevent.Writer
	ctx    context.Context
	s      api.Session
	origin int64
	shown  map[int]bool
}

// Perfetto writes a trace. Each process has its steps and findings as slices, and its memory as counters; the session
// has the memory of cgroup, host and GPUs. Events are marks. notes say what was thinned.
func Perfetto(ctx context.Context, s api.Session, w io.Writer) (notes []string, err error) {
	about, err := s.About(ctx)
	if err != nil {
		return nil, err
	}
	list, left, err := processes(ctx, s)
	if err != nil {
		return nil, err
	}
	t := &trace{Writer: traceevent.New(ctx, w), ctx: ctx, s: s, origin: about.Started.UnixMicro(),
		shown: map[int]bool{}}
	t.Process(sessionPID, "session "+about.Name)
	t.Order(sessionPID, 0)
	for i, p := range list {
		t.shown[p.PID] = true
		t.Process(p.PID, p.name()+": "+p.Command)
		t.Order(p.PID, 1+i)
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("the %d smallest processes are left out", left))
	}
	for _, part := range []func() (string, error){t.steps, t.devices, t.memory, t.host, t.gpus, t.events, t.verdicts} {
		note, err := part()
		if err = cmp.Or(t.Err(), err); err != nil {
			return nil, err
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	return notes, t.Close()
}

// each draws a query's rows; what can't be written ends the query.
func each[T any](t *trace, sql string, draw func(T)) error {
	err := api.Each(t.ctx, t.s, sql, func(row T) error {
		draw(row)
		return t.Err()
	})
	if t.Err() != nil && errors.Is(err, t.Err()) {
		return t.Err()
	}
	return err
}

func (t *trace) level(pid int, name string, at int64, bytes *int64) {
	if bytes != nil {
		t.Bytes(pid, name, at-t.origin, *bytes)
	}
}

type stepRow struct {
	PID, Low, High               int64
	From, To                     int64
	Device                       *string
	Highest, Allocated, Reserved *int64
	HeapInUse                    *int64
	Inference                    bool
}

// stepsSQL merges neighbours; %d: how many.
const stepsSQL = `SELECT pid, inference, min(step - steps + 1) AS low, max(step) AS high,
		min(epoch_us(ts) - coalesce(duration * 1e6, 0)::BIGINT) AS "from", max(epoch_us(ts)) AS "to",
		arg_max(device, step) AS device, max(allocated) AS highest,
		arg_max(allocated, step) AS allocated, arg_max(reserved, step) AS reserved,
		arg_max(heap_in_use, step) AS heapinuse
	FROM python.steps GROUP BY pid, inference, step // %d ORDER BY pid, "to"`

func (t *trace) steps() (note string, err error) {
	n, err := count(t.ctx, t.s, "SELECT sum(steps) AS n FROM python.steps")
	if err != nil {
		return "", err
	}
	k, ends := stride(n), map[[2]int]int64{} // of the last slice on each line: those of one line must not overlap
	if k > 1 {
		note = fmt.Sprintf("%d steps: %d make one slice", n, k)
	}
	return note, each(t, fmt.Sprintf(stepsSQL, k), func(r stepRow) {
		pid := int(r.PID)
		if !t.shown[pid] {
			return
		}
		line, name := stepLine, "steps"
		if r.Inference {
			line, name = inferenceLine, "inference"
		}
		end, begun := ends[[2]int{pid, line}]
		if !begun {
			t.Line(pid, line, name)
			end = r.From
		}
		ends[[2]int{pid, line}] = r.To
		t.Slice(pid, line, r.name(), max(end, r.From)-t.origin, r.To-t.origin)
		device := text(r.Device)
		if r.High > r.Low {
			t.level(pid, "allocated "+device, (r.From+r.To)/2, r.Highest)
		}
		t.level(pid, "allocated "+device, r.To, r.Allocated)
		t.level(pid, "reserved "+device, r.To, r.Reserved)
		t.level(pid, "heap in use", r.To, r.HeapInUse)
	})
}

func (r stepRow) name() string {
	what := "step"
	if r.Inference {
		what = "inference"
	}
	if r.High > r.Low {
		return fmt.Sprintf("%ss %d to %d", what, r.Low, r.High)
	}
	return fmt.Sprintf("%s %d", what, r.High)
}

// devices draws jobs with several; those with one are in steps.
func (t *trace) devices() (string, error) {
	n, err := count(t.ctx, t.s, "SELECT count(*) AS n FROM python.step_devices")
	if err != nil || n == 0 {
		return "", err
	}
	type row struct {
		PID                 int
		Device              string
		At                  int64 `json:"moment"`
		Allocated, Reserved *int64
	}
	return "", each(t, fmt.Sprintf(`SELECT pid, device, max(epoch_us(ts)) AS moment,
			arg_max(allocated, step) AS allocated,
			arg_max(reserved, step) AS reserved
		FROM python.step_devices GROUP BY pid, device, step // %d ORDER BY pid, moment`, stride(n)), func(r row) {
		if t.shown[r.PID] {
			t.level(r.PID, "allocated "+r.Device, r.At, r.Allocated)
			t.level(r.PID, "reserved "+r.Device, r.At, r.Reserved)
		}
	})
}

type memoryRow struct {
	PID                     int
	At                      int64 `json:"moment"`
	Anon, File, Shmem, Swap *int64
}

// memory draws the kernel's figures for the processes: for each interval those of the moment with the highest RSS.
func (t *trace) memory() (string, error) {
	n, err := count(t.ctx, t.s, "SELECT count(*) AS n FROM process.memory")
	if err != nil || n == 0 {
		return "", err
	}
	width := stride(n) * 1_000_000 // they are read every second
	return "", each(t, fmt.Sprintf(`SELECT pid, arg_max(epoch_us(ts), rss) AS moment, arg_max(anon, rss) AS anon,
			arg_max(file, rss) AS file, arg_max(shmem, rss) AS shmem, arg_max(swap, rss) AS swap
		FROM process.memory GROUP BY pid, CASE WHEN %d = 1 THEN epoch_us(ts) ELSE epoch_us(ts) // %d END
		ORDER BY pid, moment`, stride(n), width), func(r memoryRow) {
		if !t.shown[r.PID] {
			return
		}
		t.level(r.PID, "anonymous", r.At, r.Anon)
		t.level(r.PID, "file", r.At, r.File)
		t.level(r.PID, "shared", r.At, r.Shmem)
		if r.Swap != nil && *r.Swap > 0 {
			t.level(r.PID, "swap", r.At, r.Swap)
		}
	})
}

// host draws the job's cgroup and the machine, every second or, of long sessions, less often.
func (t *trace) host() (string, error) {
	type row struct {
		At             int64 `json:"moment"`
		Charged, Limit *int64
		Available      *int64
	}
	for _, q := range []struct{ table, sql string }{
		{"cgroup.memory", `SELECT max(epoch_us(ts)) AS moment, max("current") AS charged, max(limit_bytes) AS "limit"`},
		{"host.memory", `SELECT max(epoch_us(ts)) AS moment, min(available) AS available`},
	} {
		n, err := count(t.ctx, t.s, "SELECT count(*) AS n FROM "+q.table)
		if err != nil {
			return "", err
		}
		err = each(t, fmt.Sprintf("%s FROM %s GROUP BY epoch_us(ts) // %d ORDER BY moment", q.sql, q.table,
			stride(n)*1_000_000), func(r row) {
			t.level(sessionPID, "cgroup charged", r.At, r.Charged)
			t.level(sessionPID, "cgroup limit", r.At, r.Limit)
			t.level(sessionPID, "host available", r.At, r.Available)
		})
		if err != nil {
			return "", err
		}
	}
	return "", nil
}

func (t *trace) gpus() (string, error) {
	n, err := count(t.ctx, t.s, "SELECT count(*) AS n FROM gpu.utilization")
	if err != nil || n == 0 {
		return "", err
	}
	type row struct {
		At     int64 `json:"moment"`
		Device int
		Used   *int64
	}
	return "", each(t, fmt.Sprintf(`SELECT device_id AS device, max(epoch_us(ts)) AS moment, max(used_bytes) AS used
		FROM gpu.utilization GROUP BY device_id, epoch_us(ts) // %d ORDER BY moment`,
		stride(n)*1_000_000), func(r row) {
		t.level(sessionPID, fmt.Sprintf("GPU %d used", r.Device), r.At, r.Used)
	})
}

// events are marks on their process.
func (t *trace) events() (string, error) {
	n := 0
	err := t.s.Events(t.ctx, api.EventsRequest{}, func(e api.Event) error {
		if n++; n > maxPoints {
			return nil
		}
		pid := e.PID
		if !t.shown[pid] {
			pid = sessionPID
		}
		t.Mark(pid, e.Name, e.Time.UnixMicro()-t.origin, "text", e.Text)
		return t.Err()
	})
	if n > maxPoints {
		return fmt.Sprintf("%d events: the first %d are drawn", n, maxPoints), err
	}
	return "", err
}

// verdicts draws each finding as a slice over its steps.
func (t *trace) verdicts() (string, error) {
	list, err := findings(t.ctx, t.s)
	if err != nil {
		return "", err
	}
	told := map[int]int{}
	for _, f := range list {
		pid := f.PID
		if !t.shown[pid] {
			pid = sessionPID
		}
		if f.to == 0 || told[pid] == maxVerdicts {
			continue
		}
		line := verdictLine + told[pid]
		told[pid]++
		t.Line(pid, line, "verdict: "+f.Name())
		t.Slice(pid, line, f.title(), f.from-t.origin, f.to-t.origin)
	}
	return "", nil
}
