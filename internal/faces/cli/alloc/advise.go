package alloc

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/term"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/render"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
	"github.com/memgauge/memgauge/internal/judge/replay"
	"github.com/memgauge/memgauge/internal/record/sink"
)

type allocAdviseOptions struct {
	device   int
	capacity units.Bytes
	json     bool
	timeout  units.Duration
}

// dumpTimeout is how long a trainer may take to write its snapshot: a million events take some seconds.
const dumpTimeout = time.Minute

func (a *commands) allocAdviseCommand() *cobra.Command {
	o := allocAdviseOptions{timeout: units.Duration(dumpTimeout)}
	c := &cobra.Command{
		Use:   "advise [SNAPSHOT]",
		Short: "Try settings of PyTorch's allocator on a job's history, and say which would have saved how much",
		Long: "Replays the history in SNAPSHOT with PyTorch's settings against fragmentation, each at its usual values, and with memgauge's\n" +
			"own policies, and ranks them. \"needs\" is the least memory on which the job would have run to its end: cached memory is then given\n" +
			"back where it must, which costs driver calls. Without SNAPSHOT the session's trainer is asked for one; it must have called\n" +
			"torch.cuda.memory._record_memory_history(). The session keeps it, the newest only: of a finished one it is that which is read.",
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

func (a *commands) allocAdvise(ctx context.Context, o allocAdviseOptions, args []string) error {
	path, err := a.snapshotOf(ctx, "advise", o.timeout, args)
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	t, err := readTrace(path, o.device)
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	defer t.Close()
	conf, unknown := replay.RecordedConf(t.Settings), replay.UnknownConf(t.Settings)
	advice, err := replay.Advise(ctx, t, conf, int64(o.capacity))
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	out := &sink.Spool{To: a.Answer(o.json)}
	defer out.Discard()
	if o.json {
		err = showAdviceJSON(out, t, advice, unknown)
	} else {
		err = showAdvice(out, t, advice, unknown, term.TerminalWidth(a.Stdout))
	}
	if err != nil {
		return fmt.Errorf("alloc advise: %w", err)
	}
	return out.Commit()
}

func showAdvice(w io.Writer, t *snapshot.Trace, advice *replay.Advice, unknown []string, width int) error {
	l := &doc.Listing{Head: []model.Column{doc.Text("setting"), doc.Number("peak reserved"), doc.Number("waste"),
		doc.Number("saves"),
		doc.Number("needs"), doc.Number("driver calls")}}
	base := &advice.Base
	if peak := recordedPeak(t, base.PeakRequested); peak > 0 {
		l.Rows = append(l.Rows, []any{"recorded", doc.Size(peak),
			percent(float64(peak)/float64(max(base.PeakRequested, 1)) - 1), "", "",
			units.Count(int64(t.Recorded.SegmentOps))})
	}
	trials := append([]replay.Trial{*base}, advice.Trials...)
	for i := range trials {
		l.Rows = append(l.Rows, adviceRow(&trials[i], advice, i == 0))
	}
	if err := render.Write(w, l, render.Table, render.Options{Width: width, NoRows: true,
		Spare: []string{"driver calls", "waste"}, Whole: doc.WholeTables}); err != nil {
		return err
	}
	note := ""
	if base.Needs == 0 && base.OOM == nil {
		note = fmt.Sprintf("What each needs was not searched: a history of %s events takes too long.\n",
			units.Count(int64(t.Events.Len())))
	}
	_, err := fmt.Fprint(w, lacking(base.Lacking)+fidelity(t, &base.Result, unknown), verdict(advice), note)
	return err
}

func adviceRow(t *replay.Trial, advice *replay.Advice, first bool) []any {
	saves, needs := "", ""
	if !first {
		saves = doc.SignedSize(advice.Saved(t))
	}
	if t.Needs > 0 {
		needs = doc.Size(t.Needs)
	}
	reserved := doc.Size(t.PeakReserved)
	if t.OOM != nil {
		reserved, needs, saves = "OOM", "more", ""
	}
	return []any{t.Setting, reserved, percent(t.Waste()), saves, needs, units.Count(t.DriverCalls)}
}

// worthwhile is the share of the reserved memory that a setting must save before it is worth a change.
const worthwhile = 0.01

// verdict recommends settings, for PyTorch's own allocator and for ours.
func verdict(advice *replay.Advice) string {
	var b strings.Builder
	plain.Fprintf(&b, "Requested at the peak: %s. ", doc.Size(advice.Base.PeakRequested))
	own, ours := bestOf(advice, true), bestOf(advice, false)
	if own == nil {
		b.WriteString("No setting of PyTorch's allocator would have saved 1 %.\n")
	} else {
		plain.Fprintf(&b,
			"Of PyTorch's own settings %s saves most:\n  export PYTORCH_ALLOC_CONF=%s   # %s less (older torch: PYTORCH_CUDA_ALLOC_CONF)\n",
			own.Conf, own.Conf, doc.Size(advice.Saved(own)))
	}
	if ours != nil &&
		(own == nil || float64(own.PeakReserved-ours.PeakReserved) >= worthwhile*float64(own.PeakReserved)) {
		plain.Fprintf(&b, "libmemgauge_alloc.so with policy %s: %s less (docs/allocator.md).\n", ours.Policy,
			doc.Size(advice.Saved(ours)))
	}
	return b.String()
}

// bestOf returns the trial that saves most, among PyTorch's own settings or ours; nil if none is worthwhile.
func bestOf(advice *replay.Advice, torch bool) *replay.Trial {
	for i := range advice.Trials {
		t := &advice.Trials[i]
		rescued := advice.Base.OOM != nil && t.OOM == nil
		saves := advice.Base.OOM == nil && advice.Proven(t, worthwhile)
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

func showAdviceJSON(w io.Writer, t *snapshot.Trace, advice *replay.Advice, unknown []string) error {
	one := func(t *replay.Trial) trialJSON {
		out := trialJSON{resultJSON(&t.Result), t.Policy, t.Conf, advice.Saved(t), nil}
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
		Off           *int64        `json:"base_beyond_recorded_bytes"`
		Unknown       []string      `json:"settings_not_honoured,omitempty"`
		Base          trialJSON     `json:"base"`
		Settings      []trialJSON   `json:"settings"`
	}{doc.JSONVersion, t.Device, advice.Base.PeakRequested, recordJSON(t, advice.Base.PeakRequested),
		offJSON(t, &advice.Base.Result), unknown, one(&advice.Base), nil}
	for i := range advice.Trials {
		out.Settings = append(out.Settings, one(&advice.Trials[i]))
	}
	return doc.WriteJSON(w, out)
}
