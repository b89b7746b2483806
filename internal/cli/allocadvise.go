package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/model"
	"github.com/memgauge/memgauge/internal/remedy"
	"github.com/memgauge/memgauge/internal/replay"
	"github.com/memgauge/memgauge/internal/report"
	"github.com/memgauge/memgauge/internal/snapshot"
	"github.com/memgauge/memgauge/internal/units"
	"github.com/memgauge/memgauge/internal/wire"
)

type allocAdviseOptions struct {
	device   int
	capacity units.Bytes
	json     bool
	timeout  units.Duration
}

// dumpTimeout is how long a trainer may take to write its snapshot: a million events take some seconds.
const dumpTimeout = time.Minute

func (a *app) allocAdviseCommand() *cobra.Command {
	o := allocAdviseOptions{timeout: units.Duration(dumpTimeout)}
	c := &cobra.Command{
		Use:   "advise [SNAPSHOT]",
		Short: "Try settings of PyTorch's allocator on a job's history, and say which would have saved how much",
		Long: "Replays the history in SNAPSHOT with PyTorch's settings against fragmentation, each at its usual values, and with memgauge's\n" +
			"own policies, and ranks them. \"needs\" is the least memory on which the job would have run to its end: cached memory is then given\n" +
			"back where it must, which costs driver calls. Without SNAPSHOT the live session's trainer is asked for one; it must have\n" +
			"called torch.cuda.memory._record_memory_history().",
		Example: "  memgauge alloc advise snapshot.pickle\n" +
			"  memgauge 27891 alloc advise\n" +
			"  memgauge alloc advise snapshot.pickle --capacity 40GiB --json",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.allocAdvise(cmd.Context(), o, args) },
	}
	f := c.Flags()
	f.IntVar(&o.device, "device", -1, "the device `N`, if there are several")
	f.Lookup("device").DefValue = "0" // what pflag takes for no default worth printing
	f.Var(&o.capacity, "capacity", "memory of the device to try on (default: it is never full)")
	f.Lookup("capacity").DefValue = "0"
	f.BoolVar(&o.json, "json", false, "as JSON (docs/cli-json.md)")
	f.Var(&o.timeout, "timeout", "how long the trainer may take to write its snapshot")
	return c
}

func (a *app) allocAdvise(ctx context.Context, o allocAdviseOptions, args []string) error {
	path, done, err := a.snapshotOf(ctx, o, args)
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	defer done()
	s, t, err := readTrace(path, o.device)
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	capacity := int64(o.capacity)
	if capacity == 0 {
		capacity = replay.Unlimited(t)
	}
	advice, err := replay.Advise(ctx, t, replay.RecordedConf(s), capacity)
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	out := &spool{to: a.stdout}
	defer out.discard()
	if o.json {
		err = showAdviceJSON(out, t, advice)
	} else {
		err = showAdvice(out, t, advice, terminalWidth(a.stdout))
	}
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	return out.commit()
}

// snapshotOf is the file that the command line names, or one that the session's trainer writes; done removes the latter.
func (a *app) snapshotOf(ctx context.Context, o allocAdviseOptions, args []string) (path string, done func(), err error) {
	if len(args) == 1 {
		return args[0], func() {}, nil
	}
	dir, err := os.MkdirTemp("", "memgauge-snapshot-") // 0700
	if err != nil {
		return "", nil, err
	}
	done = func() { os.RemoveAll(dir) }
	path = filepath.Join(dir, "snapshot.pickle")
	if err := a.dumpSnapshot(ctx, path, time.Duration(o.timeout)); err != nil {
		done()
		return "", nil, err
	}
	return path, done, nil
}

// dumpCode has the trainer write its allocator's snapshot, if it has one; it never imports torch or starts CUDA.
const dumpCode = `import sys as _memgauge_sys
_memgauge_torch = _memgauge_sys.modules.get("torch")
if _memgauge_torch is None or not _memgauge_torch.cuda.is_initialized(): raise RuntimeError("the process does not use CUDA")
_memgauge_torch.cuda.memory._dump_snapshot(%s)
del _memgauge_sys, _memgauge_torch
`

func (a *app) dumpSnapshot(ctx context.Context, path string, timeout time.Duration) error {
	t, err := a.target(ctx)
	if err != nil {
		return remedy.Add(err, "or name a file: memgauge alloc advise snapshot.pickle")
	}
	chosen, err := (evalOptions{rank: -1}).choose(t.Processes(), t)
	if err != nil {
		return remedy.Add(errors.New("no observed process of the session is alive, and a session keeps no allocator history"), "name a snapshot's file: "+recordHint)
	}
	quoted, err := json.Marshal(path) // a JSON string is a Python string
	if err != nil {
		return err
	}
	var said strings.Builder
	r := evalIn(ctx, wire.Eval{Timeout: timeout, Code: fmt.Sprintf(dumpCode, quoted)}, chosen[0], &said, &said)
	if r.Exception != "" {
		lines := strings.Split(strings.TrimSpace(r.Exception), "\n")
		return remedy.Add(fmt.Errorf("snapshot of %s: %s", label(chosen[0]), lines[len(lines)-1]), recordHint)
	}
	return r.failure(timeout)
}

func showAdvice(w io.Writer, t *snapshot.Trace, advice *replay.Advice, width int) error {
	l := &listing{columns: []model.Column{text("setting"), number("peak reserved"), number("waste"), number("saves"), number("needs"), number("driver calls")}}
	base := &advice.Base
	if peak := recordedPeak(t, base.PeakRequested); peak > 0 {
		l.rows = append(l.rows, []any{"recorded", size(peak), percent(float64(peak)/float64(max(base.PeakRequested, 1)) - 1), "", "", units.Count(int64(t.Recorded.SegmentOps))})
	}
	trials := append([]replay.Trial{*base}, advice.Trials...)
	for i := range trials {
		l.rows = append(l.rows, adviceRow(&trials[i], base, i == 0))
	}
	if err := report.Write(w, l, report.Table, report.Options{Width: width, NoRows: true, Spare: []string{"driver calls", "waste"}, Whole: wholeTables}); err != nil {
		return err
	}
	note := ""
	if base.Needs == 0 && base.OOM == nil {
		note = fmt.Sprintf("What each needs was not searched: a history of %s events takes too long.\n", units.Count(int64(len(t.Events))))
	}
	_, err := fmt.Fprint(w, verdict(advice), note)
	return err
}

func adviceRow(t, base *replay.Trial, first bool) []any {
	saves, needs := "", ""
	if !first {
		saves = size(t.Saves(base))
	}
	if t.Needs > 0 {
		needs = size(t.Needs)
	}
	reserved := size(t.PeakReserved)
	if t.OOM != nil {
		reserved, needs, saves = "OOM", "more", ""
	}
	return []any{t.Setting, reserved, percent(t.Waste()), saves, needs, units.Count(t.DriverCalls)}
}

// worthwhile is the share of the reserved memory that a setting must save before it is worth a change.
const worthwhile = 0.01

// verdict says what to set, in PyTorch's own allocator and with ours.
func verdict(advice *replay.Advice) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Requested at the peak: %s. ", size(advice.Base.PeakRequested))
	own, ours := bestOf(advice, true), bestOf(advice, false)
	if own == nil {
		b.WriteString("No setting of PyTorch's allocator would have saved 1 %.\n")
	} else {
		fmt.Fprintf(&b, "Of PyTorch's own settings %s saves most:\n  export PYTORCH_ALLOC_CONF=%s   # %s less (older torch: PYTORCH_CUDA_ALLOC_CONF)\n",
			own.Conf, own.Conf, size(own.Saves(&advice.Base)))
	}
	if ours != nil && (own == nil || float64(own.PeakReserved-ours.PeakReserved) >= worthwhile*float64(own.PeakReserved)) {
		fmt.Fprintf(&b, "libmemgauge_alloc.so with policy %s: %s less (docs/allocator.md).\n", ours.Policy, size(ours.Saves(&advice.Base)))
	}
	return b.String()
}

// bestOf is the trial that saves most, among PyTorch's own settings or ours; nil where none is worth it.
func bestOf(advice *replay.Advice, torch bool) *replay.Trial {
	for i := range advice.Trials {
		t := &advice.Trials[i]
		rescued := advice.Base.OOM != nil && t.OOM == nil
		saves := advice.Base.OOM == nil && float64(t.Saves(&advice.Base)) >= worthwhile*float64(advice.Base.PeakReserved)
		if (t.Policy == "torch") == torch && t.Conf+t.Policy != "torch" && t.OOM == nil && (saves || rescued) {
			return t
		}
	}
	return nil
}

type trialJSON struct {
	replayJSON
	Policy string `json:"policy"`
	Conf   string `json:"conf"`
	Saves  int64  `json:"saves_bytes"`
	Needs  *int64 `json:"needs_bytes"`
}

func showAdviceJSON(w io.Writer, t *snapshot.Trace, advice *replay.Advice) error {
	one := func(t *replay.Trial) trialJSON {
		out := trialJSON{resultJSON(&t.Result), t.Policy, t.Conf, t.Saves(&advice.Base), nil}
		if t.Needs > 0 {
			out.Needs = &t.Needs
		}
		return out
	}
	out := struct {
		SchemaVersion int           `json:"schema_version"`
		Device        int           `json:"device"`
		PeakRequested int64         `json:"peak_requested_bytes"`
		Recorded      *recordedJSON `json:"recorded"`
		Base          trialJSON     `json:"base"`
		Settings      []trialJSON   `json:"settings"`
	}{jsonVersion, t.Device, advice.Base.PeakRequested, recordJSON(t, advice.Base.PeakRequested), one(&advice.Base), nil}
	for i := range advice.Trials {
		out.Settings = append(out.Settings, one(&advice.Trials[i]))
	}
	return writeJSON(w, out)
}
