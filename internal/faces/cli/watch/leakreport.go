package watch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/memgauge/memgauge/internal/base/plain"
	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/faces/evidence"
	"github.com/memgauge/memgauge/internal/formats/doc"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/check"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// leakContext is the part of the report about the session and the command.
type leakContext struct {
	Session         string
	Cwd             string // of the command
	Command         []string
	Live            bool
	Now             time.Time
	Started, Ended  time.Time // of the session; Ended is zero while it goes on
	Threshold       float64
	Tracking, Check bool
}

// maxHealthy is how many memories that don't grow are listed one by one.
const maxHealthy = 6

// leakText is the verdict for people: docs/cli-json.md shows it.
func leakText(r detect.Report, c leakContext) string {
	cwd := c.Cwd
	var b strings.Builder
	healthy := 0
	for _, f := range r.Findings {
		switch f.Verdict {
		case detect.Leak:
			leakBlock(&b, f, cwd)
			ruleLines(&b, f, c)
		case detect.Undecided:
			plain.Fprintf(&b, "undecided  %s: %s\n", f.Name(), f.Missing())
			if f.Total > 0 && f.Rate > 0 {
				plain.Fprintf(&b, "  so far    %s from %s %.0f to %.0f\n", f.PerStep(), f.Unit(), f.Start, f.End)
			}
		default:
			if healthy++; healthy <= maxHealthy {
				plain.Fprintf(&b, "healthy  %s: %s\n", f.Name(), f.Sound())
			}
		}
	}
	if healthy > maxHealthy {
		plain.Fprintf(&b, "healthy  %d more\n", healthy-maxHealthy)
	}
	if len(r.Findings) == 0 {
		plain.Fprintf(&b, "undecided  %s\n", r.Missing)
	}
	for _, w := range r.Warnings {
		plain.Fprintf(&b, "note  %s\n", w)
	}
	return b.String()
}

func leakBlock(b *strings.Builder, f detect.Finding, cwd string) {
	plain.Fprintf(b, "LEAK  %s %s%s since %s %.0f\n", f.Name(), f.PerStep(),
		between(amount(f.Rate), amount(f.Low), amount(f.High)), f.Unit(), f.Start)
	line := func(name, text string) {
		if text != "" {
			plain.Fprintf(b, "  %-9s %s\n", name, text)
		}
	}
	held := f.Holder
	if held != "" && f.Held != "" {
		held += " (" + f.Held + ")"
	} else if held == "" {
		held = f.Held
	}
	line("held by", held)
	line("created", strings.TrimPrefix(f.Created(), strings.TrimSuffix(cwd, "/")+"/"))
	line("limit", limitLine(f))
	for i, advice := range f.Advice {
		if i == 0 {
			line("do", advice)
		} else {
			line("or", advice)
		}
	}
	for i, e := range f.Evidence {
		line(map[bool]string{true: "because", false: "and"}[i == 0], e)
	}
}

// ruleLines prints the rule of `check` that the leak's line matches, and its fix.
func ruleLines(b *strings.Builder, f detect.Finding, c leakContext) {
	m, ok := evidence.Explain(f, c.Cwd, c.Command, c.Started)
	if !ok {
		return
	}
	text := m.Message
	if m.Alone {
		text += " (no census saw what holds the memory; this is found in the code)"
	}
	plain.Fprintf(b, "  %-9s %s %s at %s:%d: %s\n", "rule", m.Rule.ID, m.Rule.Name, m.Path, m.Line, text)
	for line := range strings.Lines(check.Headless(m.Diff)) {
		b.WriteString("            " + line)
	}
}

// leakRule returns that rule for the JSON; nil if the line matches none.
func leakRule(f detect.Finding, c leakContext) *leakRuleJSON {
	m, ok := evidence.Explain(f, c.Cwd, c.Command, c.Started)
	if !ok {
		return nil
	}
	return &leakRuleJSON{m.Rule.ID, m.Rule.Name, m.Path, m.Line, m.Message, m.Hint, doc.Known(m.Diff)}
}

// limitLine says when the memory will meet its limit, met it, or would have met it; "" if no limit is known.
func limitLine(f detect.Finding) string {
	step := "about " + f.Unit() + " " + units.Count(int64(math.Round(f.AtStep)))
	when, at := ", "+step, " at "+step
	if f.ByTime {
		when, at = "", " after "+span(f.AtStep)
	}
	switch {
	case f.Limit == "":
		return ""
	case f.Met && f.Device != "":
		return fmt.Sprintf("%s was met%s: an allocation failed", f.Limit, at)
	case f.Met:
		return fmt.Sprintf("%s was met%s: killed for lack of memory", f.Limit, at)
	case f.Seconds <= 0:
		return ""
	}
	high := "unknown"
	if f.SecondsHigh > 0 {
		high = span(f.SecondsHigh)
	}
	left := span(f.Seconds) + between(span(f.Seconds), span(f.SecondsLow), high)
	if f.Over {
		return fmt.Sprintf("%s would have been met %s after the end%s", f.Limit, left, when)
	}
	return fmt.Sprintf("%s in %s%s", f.Limit, left, when)
}

// between formats an interval in brackets; "" if its rounded ends equal the figure itself.
func between(figure, low, high string) string {
	if low == figure && high == figure {
		return ""
	}
	return fmt.Sprintf(" (%s to %s)", low, high)
}

// amount formats an end of a rate's interval; below a byte it is 0.
func amount(x float64) string { return units.Bytes(math.Round(x)).String() }

// span formats a time in words; beyond some centuries it gives no figure.
func span(seconds float64) string {
	const longest = 100 * 365 * 24 * 3600
	return units.Duration(time.Duration(min(seconds, longest) * float64(time.Second)).Round(time.Second)).String()
}

// The JSON of memgauge leak. MB are of 2^20 bytes; docs/cli-json.md describes every member.
type leakDocument struct {
	SchemaVersion   int                   `json:"schema_version"`
	Timestamp       time.Time             `json:"timestamp"`
	Session         string                `json:"session"`
	Verdict         detect.Verdict        `json:"verdict"`
	Class           *string               `json:"class"`
	Confidence      *float64              `json:"confidence"`
	Steps           int64                 `json:"steps"`
	Unit            string                `json:"unit"` // of steps, and of steps_missing
	Missing         *string               `json:"missing"`
	StepsMissing    *int64                `json:"steps_missing"`
	Seconds         *float64              `json:"seconds"`
	SecondsMissing  *int64                `json:"seconds_missing"`
	Summary         leakSummary           `json:"monitoring_summary"`
	Devices         map[string]leakDevice `json:"devices"`
	Events          []leakEvent           `json:"leak_events"`
	Recommendations []string              `json:"recommendations"`
	Findings        []leakFinding         `json:"findings"`
	Warnings        []string              `json:"warnings"`
	Peaks           []detect.Peak         `json:"peaks"` // that belong to saving, an evaluation …
}

type leakSummary struct {
	Duration   float64 `json:"duration_seconds"`
	Live       bool    `json:"live"`
	Steps      int64   `json:"total_steps"`
	Samples    int64   `json:"samples_count"`
	Devices    int     `json:"total_devices"`
	Leaks      int     `json:"leaks_detected"`
	Threshold  float64 `json:"leak_threshold_mb_per_min"`
	Tracking   bool    `json:"tracking_enabled"`
	Check      bool    `json:"check"`
	StartTime  string  `json:"start_time"`
	EndTime    string  `json:"end_time"`
	HasLeaks   bool    `json:"has_leaks"`
	Confidence float64 `json:"confidence"`
}

type leakDevice struct {
	Current   int64     `json:"current_memory"`
	Growth    int64     `json:"memory_growth"`
	PerMinute *model.MB `json:"growth_rate_mb_per_min"`
	PerStep   *model.MB `json:"growth_rate_mb_per_step"`
	Detected  bool      `json:"leak_detected"`
	Samples   int64     `json:"samples_count"`
	Verdict   string    `json:"verdict"`
}

type leakEvent struct {
	Timestamp   time.Time `json:"timestamp"`
	DeviceID    string    `json:"device_id"`
	PerMinute   model.MB  `json:"leak_rate_mb_per_min"`
	Amount      float64   `json:"memory_increase_mb"`
	Severity    string    `json:"severity"`
	Confidence  float64   `json:"confidence"`
	Description string    `json:"description"`
	Suspects    []string  `json:"suspected_sources"`
}

// leakFinding is a finding, with the rule of `check` that its line matches.
type leakFinding struct {
	model.Finding
	Rule *leakRuleJSON `json:"rule"`
}

// leakRuleJSON is the finding of package check at the leak's line.
type leakRuleJSON struct {
	ID      string  `json:"id"`
	Name    string  `json:"name"`
	Path    string  `json:"path"`
	Line    int     `json:"line"`
	Message string  `json:"message"`
	Hint    string  `json:"hint"`
	Diff    *string `json:"diff"`
}

func leakJSON(r detect.Report, c leakContext) leakDocument {
	until := c.Now
	if !c.Ended.IsZero() {
		until = c.Ended
	}
	watched := max(0, until.Sub(c.Started).Seconds())
	d := leakDocument{SchemaVersion: 1, Timestamp: c.Now.UTC(), Session: c.Session, Verdict: r.Verdict,
		Class: doc.Known(string(r.Class)), Confidence: positive(r.Confidence), Steps: int64(r.Steps),
		Unit: r.Unit(), Missing: doc.Known(r.Missing), Devices: map[string]leakDevice{}, Events: []leakEvent{},
		Recommendations: []string{}, Peaks: []detect.Peak{},
		Findings: []leakFinding{}, Warnings: append([]string{}, r.Warnings...),
		Summary: leakSummary{Duration: watched,
			Live: c.Live, Steps: int64(r.Steps), Threshold: c.Threshold, Tracking: c.Tracking, Check: c.Check,
			StartTime: c.Started.UTC().Format(time.RFC3339Nano), EndTime: until.UTC().Format(time.RFC3339Nano),
			Confidence: r.Confidence, HasLeaks: r.Verdict == detect.Leak}}
	if r.Needs > 0 {
		needs := int64(r.Needs)
		if d.StepsMissing = &needs; r.ByTime() {
			d.StepsMissing, d.SecondsMissing = nil, &needs
		}
	}
	if r.ByTime() {
		d.Seconds = positive(math.Round(r.Seconds*10) / 10)
	}
	for _, f := range r.Findings {
		told := leakFinding{f.Document(), leakRule(f, c)}
		d.Findings = append(d.Findings, told)
		d.add(f, told.Finding, r, c.Now)
	}
	d.Summary.Devices = len(d.Devices)
	return d
}

func (d *leakDocument) add(f detect.Finding, told model.Finding, r detect.Report, now time.Time) {
	d.Summary.Samples += int64(f.N)
	name := strings.TrimPrefix(f.Device, "cuda:") // older tools name devices by their numbers
	if name == "" {
		name = "host"
	}
	dev := d.Devices[name]
	dev.Current, dev.Growth, dev.Samples = max(dev.Current, int64(f.Level)), max(dev.Growth, int64(f.Total)),
		dev.Samples+int64(f.N)
	if dev.Verdict == "" || f.Verdict == detect.Leak {
		dev.Verdict = string(f.Verdict)
	}
	if f.Verdict == detect.Leak && !dev.Detected {
		dev.Detected, dev.PerStep, dev.PerMinute = true, &told.PerStep, perMinute(f)
	}
	d.Devices[name] = dev
	if f.Verdict != detect.Leak {
		return
	}
	d.Summary.Leaks++
	severity := "medium"
	if f.Seconds > 0 && f.Seconds < 3600 {
		severity = "high"
	}
	e := leakEvent{Timestamp: now.UTC(), DeviceID: name, PerMinute: *perMinute(f),
		Amount: f.Total / float64(units.MiB), Severity: severity, Confidence: r.Confidence,
		Description: fmt.Sprintf("%s %s since %s %.0f", f.Name(), f.PerStep(), f.Unit(), f.Start), Suspects: []string{}}
	for _, s := range []string{f.Holder, f.Site} {
		if s != "" {
			e.Suspects = append(e.Suspects, s)
		}
	}
	d.Events = append(d.Events, e)
	for _, advice := range f.Advice { // two memories may grow by the same line
		if !slices.Contains(d.Recommendations, advice) {
			d.Recommendations = append(d.Recommendations, advice)
		}
	}
}

func perMinute(f detect.Finding) *model.MB {
	rate := model.MB(f.PerSec * 60)
	return &rate
}

// positive returns nil unless x is finite and above zero; JSON then has null.
func positive(x float64) *float64 {
	if !(x > 0) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}
