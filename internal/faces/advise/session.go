package advise

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/memgauge/memgauge/internal/base/order"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// Report is what a session's data support.
type Report struct {
	Steps  int64
	Advice []Advice
	Notes  []string // what could not be judged, and what it needs
}

// evidence is what the session has measured.
type evidence struct {
	devices []deviceRow
	heaps   []heapRow
	workers []workerRow
	blocks  []blockRow
	kinds   []kindRow
	cgroup  []limitRow
	steps   []stepsRow
	leaks   []detect.Finding
}

// warmUp: the first steps allocate what later ones find.
const warmUp = "step > 2 AND NOT inference"

type deviceRow struct {
	Device   string `json:"device"`
	Reserved int64  `json:"reserved"` // the most
	Peak     int64  `json:"peak"`     // in use, the most
	Floor    int64  `json:"floor"`    // in use between steps, the median
	Steps    int64  `json:"steps"`
	Total    *int64 `json:"total"` // of the GPU
}

const deviceSQL = `SELECT device, max(max_reserved)::BIGINT AS reserved, max(max_allocated)::BIGINT AS peak,
 quantile_disc(allocated, 0.5)::BIGINT AS floor, sum(steps)::BIGINT AS steps,
 (SELECT min(total_bytes) FROM gpu.utilization WHERE total_bytes > 0)::BIGINT AS total
FROM python.step_devices WHERE ` + warmUp + ` AND allocated IS NOT NULL GROUP BY device ORDER BY reserved DESC LIMIT 64`

type heapRow struct {
	PID   int   `json:"pid"`
	Free  int64 `json:"free"` // held and not in use: the least of the last quarter of the steps
	InUse int64 `json:"in_use"`
	// of steps that the heap was read in
	Readings int64 `json:"readings"`
}

const heapSQL = `WITH s AS (SELECT pid, step, heap_held, heap_in_use, count(*) OVER (PARTITION BY pid) AS n,
 row_number() OVER (PARTITION BY pid ORDER BY step DESC) AS r FROM python.steps
 WHERE heap_held IS NOT NULL AND ` + warmUp + `)
SELECT pid, min(heap_held - heap_in_use)::BIGINT AS free, max(heap_in_use)::BIGINT AS in_use, max(n)::BIGINT AS readings
FROM s WHERE r <= greatest(n // 4, 1) GROUP BY pid ORDER BY free DESC LIMIT 64`

type workerRow struct {
	Workers int64 `json:"workers"` // at once
	Each    int64 `json:"each"`    // private bytes of one, the median of their highest
	Started int64 `json:"started"` // in all
}

const workerSQL = `WITH t AS (SELECT pid, start_ticks, coalesce(started, first_seen) AS born, last_seen
 FROM process.tree WHERE role = 'worker'),
beside AS (SELECT count(*) AS n FROM t a JOIN t b ON b.born <= a.born AND a.born <= b.last_seen
 GROUP BY a.pid, a.start_ticks),
w AS (SELECT m.pid, max(coalesce(m.private_dirty, m.anon)) AS most FROM process.memory m
 JOIN (SELECT DISTINCT pid FROM t) USING (pid) GROUP BY m.pid)
SELECT (SELECT coalesce(max(n), 0) FROM beside)::BIGINT AS workers, (SELECT count(*) FROM t)::BIGINT AS started,
 (SELECT coalesce(quantile_disc(most, 0.5), 0) FROM w)::BIGINT AS each`

// kindRow are the bytes of a type of tensors on a device, the most that a census saw.
type kindRow struct {
	Device   string `json:"device"`
	Kind     string `json:"kind"` // torch's dtype
	Bytes    int64  `json:"bytes"`
	Censuses int64  `json:"censuses"`
}

const kindSQL = `WITH sums AS (SELECT device, dtype, pid, census_id, sum(coalesce(bytes, 0)) AS bytes
 FROM python.tensors WHERE device LIKE 'cuda%' GROUP BY ALL)
SELECT device, dtype AS kind, max(bytes)::BIGINT AS bytes, count(*)::BIGINT AS censuses FROM sums GROUP BY ALL`

type limitRow struct {
	Current int64 `json:"current"`
	Limit   int64 `json:"limit"`
}

const limitSQL = `SELECT max(current)::BIGINT AS current, min(limit_bytes)::BIGINT AS "limit" FROM cgroup.memory
WHERE limit_bytes IS NOT NULL HAVING count(*) > 0`

// blockRow is a module that recurs under a number, such as layers.3: what its forward leaves for backward.
type blockRow struct {
	Family string `json:"family"`
	Count  int64  `json:"count"`
	Keeps  int64  `json:"keeps"` // of all of them
	Most   int64  `json:"most"`  // of one
	Device string `json:"device"`
}

const blockSQL = `WITH m AS (SELECT device, module, quantile_disc((allocated_delta * 1048576)::BIGINT, 0.5) AS d
 FROM python.torch_trace WHERE stage = 'post forward' AND device LIKE 'cuda%' AND step > 2
 AND regexp_matches(module, '(^|\.)[0-9]+$') GROUP BY device, module)
SELECT device, regexp_replace(module, '[0-9]+$', '*') AS family, count(*)::BIGINT AS "count",
 sum(d)::BIGINT AS keeps, max(d)::BIGINT AS most
FROM m GROUP BY ALL HAVING count(*) >= 4 AND sum(d) > 0 ORDER BY keeps DESC LIMIT 1`

// Session gathers what a session has measured, and judges it.
func Session(ctx context.Context, s api.Session) (*Report, error) {
	e := evidence{}
	var err error
	if e.devices, err = api.Rows[deviceRow](ctx, s, deviceSQL); err != nil {
		return nil, err
	}
	if e.heaps, err = api.Rows[heapRow](ctx, s, heapSQL); err != nil {
		return nil, err
	}
	if e.workers, err = api.Rows[workerRow](ctx, s, workerSQL); err != nil {
		return nil, err
	}
	if e.blocks, err = api.Rows[blockRow](ctx, s, blockSQL); err != nil {
		return nil, err
	}
	if e.kinds, err = api.Rows[kindRow](ctx, s, kindSQL); err != nil {
		return nil, err
	}
	if e.cgroup, err = api.Rows[limitRow](ctx, s, limitSQL); err != nil {
		return nil, err
	}
	if e.steps, err = api.Rows[stepsRow](ctx, s, stepsSQL); err != nil {
		return nil, err
	}
	leak, err := s.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return nil, err
	}
	for _, f := range leak.Findings {
		if f.Verdict == detect.Leak {
			e.leaks = append(e.leaks, f)
		}
	}
	return e.judge(), nil
}

const stepsSQL = `SELECT coalesce(max(step), 0)::BIGINT AS steps FROM python.steps WHERE NOT inference`

type stepsRow struct {
	Steps int64 `json:"steps"`
}

// enough is how many steps the median of a floor, and the end of a warm-up, need.
const enough = 20

func (e *evidence) judge() *Report {
	r := &Report{}
	for _, n := range e.steps {
		r.Steps = max(r.Steps, n.Steps)
	}
	if r.Steps < enough {
		r.Notes = append(r.Notes, fmt.Sprintf("%d steps are too few for advice on settings: it needs %d",
			r.Steps, enough))
	} else {
		r.add(e.onBatch(), e.onPrecision(), e.onCheckpointing(), e.onHeap(), e.onWorkers(), e.onRestarts())
	}
	r.add(e.onLeaks()...)
	if len(e.devices) > 0 {
		r.Notes = append(r.Notes, "pin_memory: whether the GPU waits for copies is not recorded; it saves no memory, "+
			"and costs the host's a batch or two for each worker")
		if len(e.kinds) == 0 {
			r.Notes = append(r.Notes, "precision: no census saw tensors on the GPU (memgauge tensors takes one)")
		}
	} else {
		r.Notes = append(r.Notes, "no GPU was used: batch size, precision and checkpointing are judged on GPUs only; "+
			"memgauge estimate says what the script would take of one")
	}
	order.Stable(r.Advice, func(a, b Advice) int { return cmp.Compare(b.rank, a.rank) })
	return r
}

func (r *Report) add(list ...*Advice) {
	for _, a := range list {
		if a != nil {
			r.Advice = append(r.Advice, *a)
		}
	}
}

// Full and spare are shares of a GPU's memory: above full a step that is a little larger fails; below spare a batch
// twice as large has room.
const full, spare = 0.9, 0.45

// onBatch judges the batch size by the fullest GPU. What a step adds to the floor grows with the batch.
func (e *evidence) onBatch() *Advice {
	for _, d := range e.devices {
		if d.Total == nil || d.Peak <= d.Floor {
			continue
		}
		step, share := d.Peak-d.Floor, float64(d.Reserved)/float64(*d.Total)
		figures := fmt.Sprintf("%s reserved of %s; between steps %s are in use, and a step adds up to %s",
			units.Bytes(d.Reserved),
			units.Bytes(*d.Total), units.Bytes(d.Floor), units.Bytes(step))
		switch {
		case share > full:
			saves := step / 2
			return &Advice{Setting: "batch_size", Change: "half the batch size, accumulated twice as often",
				Memory: d.Device,
				Saves:  &saves, Known: Bounded, Evidence: figures, Sure: "medium",
				Costs: "up to twice the launches of kernels for a step; the effective batch size stays",
				Set:   halved(), rank: share}
		case share < spare:
			return &Advice{Setting: "batch_size", Change: "a batch twice as large has room", Memory: d.Device,
				Known:    Measured,
				Evidence: figures, Sure: "medium", Costs: "saves time where the GPU was not busy; takes up to " +
					units.Bytes(step).String(), Set: doubled()}
		}
	}
	return nil
}

func halved() Set {
	return Set{"batch_size // 2; step the optimizer every 2 batches, loss / 2",
		"batch_size // 2, Trainer(accumulate_grad_batches=2)",
		"per_device_train_batch_size // 2, gradient_accumulation_steps * 2"}
}

func doubled() Set {
	return Set{"batch_size * 2", "batch_size * 2", "per_device_train_batch_size * 2"}
}

// worthwhile is what a change of the program must save to be named, in bytes.
const worthwhile = 128 << 20

// onCheckpointing adds up what numbered blocks leave for backward: checkpointed, one of them is there at a time.
func (e *evidence) onCheckpointing() *Advice {
	for _, b := range e.blocks {
		saves := b.Keeps - b.Most
		if saves < worthwhile || !e.full(b.Device) {
			continue
		}
		return &Advice{Setting: "activation checkpointing", Change: "checkpoint " + b.Family, Memory: b.Device,
			Saves: &saves,
			Known: Bounded, Sure: "medium", Costs: "a second forward of these blocks: up to a third of a step more",
			Evidence: fmt.Sprintf("forwards of the %d blocks %s leave %s for backward, the largest %s",
				b.Count, b.Family,
				units.Bytes(b.Keeps), units.Bytes(b.Most)),
			Set: Set{"torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)",
				"the same, in the module's forward", "TrainingArguments(gradient_checkpointing=True)"}, rank: 0.5}
	}
	return nil
}

func (e *evidence) full(device string) bool {
	for _, d := range e.devices {
		if d.Device == device && d.Total != nil {
			return float64(d.Reserved) > full*float64(*d.Total)
		}
	}
	return false
}

// onHeap judges free memory that malloc keeps: what was free at every reading of the last quarter of the run.
func (e *evidence) onHeap() *Advice {
	for _, h := range e.heaps {
		if h.Readings < enough || h.Free < worthwhile || h.Free < h.InUse/4 {
			continue
		}
		saves := h.Free
		return &Advice{Setting: "malloc", Change: "MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072, or jemalloc",
			Memory: "host heap", Saves: &saves, Known: Bounded, Sure: "medium",
			Costs: "threads share arenas and pages are requested more often: measure a step before and after",
			Evidence: fmt.Sprintf("pid %d: malloc held at least %s that were not in use, beside %s that were", h.PID,
				units.Bytes(h.Free), units.Bytes(h.InUse)),
			Set: trimmed(), rank: 0.3}
	}
	return nil
}

// trimmed: the variables keep later holes small. malloc_trim gives back those that are there, also below blocks in use.
func trimmed() Set {
	now := "; or, after an epoch, ctypes.CDLL(None).malloc_trim(0)"
	s := environment("MALLOC_ARENA_MAX=2 MALLOC_TRIM_THRESHOLD_=131072")
	return Set{s.Plain + now, s.Lightning + now + " in on_train_epoch_end", s.HuggingFace + now + " in on_epoch_end"}
}

// tight is the share of the host's limit above which workers are worth saving.
const tight = 0.8

// onWorkers judges the number of workers where host memory is short.
func (e *evidence) onWorkers() *Advice {
	if len(e.workers) == 0 || len(e.cgroup) == 0 || e.workers[0].Workers < 2 {
		return nil
	}
	w, c := e.workers[0], e.cgroup[0]
	if c.Limit <= 0 || float64(c.Current) < tight*float64(c.Limit) || w.Each <= 0 {
		return nil
	}
	n := int(w.Workers / 2)
	saves := (w.Workers - int64(n)) * w.Each
	return &Advice{Setting: "num_workers", Change: fmt.Sprintf("num_workers=%d", n), Memory: "host", Saves: &saves,
		Known: Measured, Sure: "high", Costs: "slower, if the trainer then waits for data",
		Evidence: fmt.Sprintf("%d workers were seen, each with %s of its own; %s charged of %s", w.Workers,
			units.Bytes(w.Each), units.Bytes(c.Current), units.Bytes(c.Limit)), Set: workers(n),
		rank: float64(c.Current) / float64(c.Limit)}
}

// restarted is how many times as many workers must have been started as run at once: those of three epochs.
const restarted = 3

// onRestarts judges workers that each epoch starts anew, where they don't grow and there is room to keep them.
func (e *evidence) onRestarts() *Advice {
	if len(e.workers) == 0 || e.workers[0].Workers == 0 || e.workers[0].Started < restarted*e.workers[0].Workers {
		return nil
	}
	if len(e.cgroup) > 0 && float64(e.cgroup[0].Current) > tight*float64(e.cgroup[0].Limit) ||
		slices.ContainsFunc(e.leaks, func(f detect.Finding) bool { return string(f.Class) == "worker_growth" }) {
		return nil
	}
	w := e.workers[0]
	plain := "DataLoader(…, persistent_workers=True)"
	return &Advice{Setting: "persistent_workers", Change: "persistent_workers=True", Memory: "host", Known: Measured,
		Sure: "medium", Costs: fmt.Sprintf("saves the starts; takes %s between epochs", units.Bytes(w.Workers*w.Each)),
		Evidence: fmt.Sprintf("%d workers were started, %d at a time: each epoch starts them anew; none of them grew",
			w.Started, w.Workers),
		Set: Set{plain, plain, "TrainingArguments(dataloader_persistent_workers=True)"}}
}

// onPrecision judges a full GPU whose tensors all have 32 bits. Autocast halves what its operations leave, not weights
// or the optimizer's state.
func (e *evidence) onPrecision() *Advice {
	for _, d := range e.devices {
		whole, half, seen := false, false, int64(0)
		for _, k := range e.kinds {
			if k.Device == d.Device {
				whole, half = whole || k.Kind == "float32", half || k.Kind == "bfloat16" || k.Kind == "float16"
				seen = max(seen, k.Censuses)
			}
		}
		if !whole || half || !e.full(d.Device) || d.Peak <= d.Floor {
			continue
		}
		saves := (d.Peak - d.Floor) / 2
		return &Advice{Setting: "precision", Change: "bfloat16 by autocast", Memory: d.Device, Saves: &saves,
			Known: Bounded, Sure: "medium",
			Costs: "faster on GPUs with tensor cores; losses differ in their last digits",
			Evidence: fmt.Sprintf("%d censuses saw no tensor of 16 bits; a step adds up to %s", seen,
				units.Bytes(d.Peak-d.Floor)),
			Set: Set{`with torch.autocast("cuda", dtype=torch.bfloat16): forward and loss`,
				`Trainer(precision="bf16-mixed")`, "TrainingArguments(bf16=True)"}, rank: 0.7}
	}
	return nil
}
