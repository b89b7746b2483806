package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/remedy"
	"github.com/memgauge/memgauge/internal/base/rootdir"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/record/sink"
)

const (
	baselineFile    = "memgauge-baseline.json"
	baselineVersion = 1
	maxBaseline     = 1 << 20 // a peak is 60 bytes, and a machine has some tens of devices
)

// baseline has the peaks of a session, with which another session can be compared.
type baseline struct {
	SchemaVersion int              `json:"schema_version"`
	Saved         time.Time        `json:"saved"`
	Session       string           `json:"session"`
	Command       []string         `json:"command"`
	Steps         int64            `json:"steps"`
	Verdict       detect.Verdict   `json:"verdict"`
	Line          string           `json:"verdict_line"`
	Peaks         map[string]int64 `json:"peaks_bytes"` // by memory: host process, host job, cuda:0 …
}

// comparison is what check prints as JSON.
type comparison struct {
	SchemaVersion int            `json:"schema_version"`
	Passed        bool           `json:"passed"`
	Verdict       detect.Verdict `json:"verdict"`
	Line          string         `json:"verdict_line"`
	Tolerance     float64        `json:"tolerance"`
	Session       string         `json:"session"`
	Baseline      baseline       `json:"baseline"`
	Peaks         []peakChange   `json:"peaks"`
}

type peakChange struct {
	Memory   string   `json:"memory"`
	Baseline *int64   `json:"baseline_bytes"` // null: the baseline has none
	Now      *int64   `json:"bytes"`          // null: this session has none
	Change   *float64 `json:"change"`         // 0.05 is 5 % more
	Grew     bool     `json:"grew"`           // by more than the tolerance
}

func (a *commands) baselineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "baseline",
		Short: "Keep a run's peaks and verdict, and fail when another run needs more or leaks",
		Long: "Keeps what a session amounts to as a small JSON file that goes into version control, and compares\n" +
			"later sessions with it: in CI, so that a change that leaks or needs more memory fails its pull\n" +
			"request. examples/ci/memory.yml is such a workflow.",
		Example: "  memgauge baseline save memgauge-baseline.json\n" +
			"  memgauge baseline check memgauge-baseline.json --tolerance 10%",
	}
	save := &cobra.Command{
		Use:   "save [FILE]",
		Short: "Write the session's peaks and verdict to a file",
		Long: "Writes the session's peaks and verdict as JSON to FILE (" + baselineFile + "), which is replaced in\n" +
			"one step. A session that leaks makes no baseline: exit code 3, and nothing is written.",
		Example: "  memgauge baseline save\n  memgauge my-run baseline save ci/memory.json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.baselineSave(cmd.Context(), fileOr(args, baselineFile))
		},
	}
	tolerance, asJSON := units.Fraction(0.05), false
	check := &cobra.Command{
		Use:   "check [FILE]",
		Short: "Compare the session with a baseline; exit code 3 if it leaks or a peak grew",
		Long: "Compares the session's peaks and verdict with those in FILE (" + baselineFile + "). Exit code 3 if\n" +
			"it leaks, or if a peak is higher by more than --tolerance. A peak that only one of the two has is\n" +
			"shown and fails nothing; so is an undecided verdict.",
		Example: "  memgauge baseline check\n  memgauge my-run baseline check ci/memory.json --tolerance 10% --json",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.baselineCheck(cmd.Context(), fileOr(args, baselineFile), float64(tolerance), asJSON)
		},
	}
	check.Flags().Var(&tolerance, "tolerance", "by how much a peak may grow")
	check.Flags().BoolVar(&asJSON, "json", false, "print the comparison as JSON (docs/cli-json.md)")
	c.AddCommand(save, check)
	return c
}

func fileOr(args []string, usual string) string {
	if len(args) > 0 {
		return args[0]
	}
	return usual
}

// measure makes the baseline of a session.
func (a *commands) measure(ctx context.Context) (baseline, error) {
	session, err := a.Connect(ctx)
	if err != nil {
		return baseline{}, err
	}
	defer session.Close()
	about, err := session.About(ctx)
	if err != nil {
		return baseline{}, err
	}
	sum, err := session.Summary(ctx)
	if err != nil {
		return baseline{}, err
	}
	report, err := session.Leak(ctx, api.LeakRequest{})
	if err != nil {
		return baseline{}, err
	}
	rows, err := api.Ask(ctx, session, questions.Peaks)
	if err != nil {
		return baseline{}, err
	}
	b := baseline{SchemaVersion: baselineVersion, Saved: time.Now().UTC().Truncate(time.Second), Session: about.Name,
		Command: about.Command, Steps: sum.Steps, Verdict: report.Verdict, Line: report.Line(),
		Peaks: map[string]int64{}}
	for _, r := range rows {
		b.Peaks[r.Memory] = r.Bytes
	}
	return b, nil
}

func (a *commands) baselineSave(ctx context.Context, path string) error {
	b, err := a.measure(ctx)
	if err != nil {
		return fmt.Errorf("baseline save: %w", err)
	}
	if b.Verdict == detect.Leak {
		err := fmt.Errorf("baseline save: %s: what leaks makes no baseline", b.Line)
		return app.Exit(app.ExitFindings, remedy.Add(err,
			"mend the leak first: memgauge leak says what holds the memory"))
	}
	if len(b.Peaks) == 0 {
		return errors.New("baseline save: no memory was recorded in this session")
	}
	out, err := sink.Create(path)
	if err != nil {
		return fmt.Errorf("baseline save: %w", err)
	}
	defer out.Discard()
	if err := doc.WriteJSON(out, b); err != nil {
		return fmt.Errorf("baseline save: %w", err)
	}
	if err := out.Commit(); err != nil {
		return fmt.Errorf("baseline save: %w", err)
	}
	plain.Fprintf(a.Text(), "%s: %s; %s\n", path, peakList(b.Peaks), b.Line)
	return nil
}

func peakList(peaks map[string]int64) string {
	var words []string
	for _, memory := range slices.Sorted(maps.Keys(peaks)) {
		words = append(words, fmt.Sprintf("%s %s", memory, doc.Size(peaks[memory])))
	}
	return "peak of " + strings.Join(words, ", ")
}

func (a *commands) baselineCheck(ctx context.Context, path string, tolerance float64, asJSON bool) error {
	before, err := readBaseline(path)
	if err != nil {
		return fmt.Errorf("baseline check: %w", err)
	}
	now, err := a.measure(ctx)
	if err != nil {
		return fmt.Errorf("baseline check: %w", err)
	}
	c := compare(before, now, tolerance)
	if asJSON {
		err = doc.WriteJSON(a.Stdout, c)
	} else {
		_, err = io.WriteString(a.Text(), c.text())
	}
	if err != nil {
		return fmt.Errorf("baseline check: %w", err)
	}
	if !c.Passed {
		return app.Exit(app.ExitFindings, nil)
	}
	return nil
}

func readBaseline(path string) (b baseline, err error) {
	f, err := rootdir.OpenNamed(path)
	if errors.Is(err, os.ErrNotExist) {
		return b, remedy.Add(err, "memgauge baseline save makes one, from a run that is as it should be")
	}
	if err != nil {
		return b, err
	}
	defer f.Close()
	if err := json.NewDecoder(io.LimitReader(f, maxBaseline)).Decode(&b); err != nil {
		return b, fmt.Errorf("%s is not a baseline: %w", path, err)
	}
	if b.SchemaVersion != baselineVersion || len(b.Peaks) == 0 {
		return b, remedy.Add(fmt.Errorf("%s is not a baseline of version %d", path, baselineVersion),
			"make it anew: memgauge baseline save")
	}
	return b, nil
}

// compare compares the peaks of two sessions.
func compare(before, now baseline, tolerance float64) comparison {
	c := comparison{SchemaVersion: 1, Passed: now.Verdict != detect.Leak, Verdict: now.Verdict, Line: now.Line,
		Tolerance: tolerance, Session: now.Session, Baseline: before}
	memories := map[string]bool{}
	for _, peaks := range []map[string]int64{before.Peaks, now.Peaks} {
		for memory := range peaks {
			memories[memory] = true
		}
	}
	for _, memory := range slices.Sorted(maps.Keys(memories)) {
		p := peakChange{Memory: memory}
		was, hadBefore := before.Peaks[memory]
		is, hasNow := now.Peaks[memory]
		if hadBefore {
			p.Baseline = &was
		}
		if hasNow {
			p.Now = &is
		}
		if hadBefore && hasNow && was > 0 {
			change := float64(is)/float64(was) - 1
			p.Change, p.Grew = &change, float64(is-was) > tolerance*float64(was)
			c.Passed = c.Passed && !p.Grew
		}
		c.Peaks = append(c.Peaks, p)
	}
	return c
}

func (c comparison) text() string {
	var b strings.Builder
	for _, p := range c.Peaks {
		word := "ok"
		if p.Grew {
			word = "GREW"
		}
		switch {
		case p.Now == nil:
			plain.Fprintf(&b, "%-6s peak of %s: not in this session; %s in the baseline\n", "-", p.Memory,
				doc.Size(*p.Baseline))
		case p.Change == nil:
			plain.Fprintf(&b, "%-6s peak of %s: %s; not in the baseline\n", "-", p.Memory, doc.Size(*p.Now))
		default:
			plain.Fprintf(&b, "%-6s peak of %s: %s, %+.1f %% against %s (%s allowed)\n", word, p.Memory,
				doc.Size(*p.Now),
				100**p.Change, doc.Size(*p.Baseline), units.Fraction(c.Tolerance))
		}
	}
	word := "ok"
	switch c.Verdict {
	case detect.Leak:
		word = "LEAK"
	case detect.Undecided:
		word = "-"
	}
	plain.Fprintf(&b, "%-6s %s\n", word, strings.TrimPrefix(c.Line, "LEAK "))
	return b.String()
}
