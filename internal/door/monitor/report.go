package monitor

import (
	"fmt"
	"math"
	"time"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/internal/judge/forecast"
)

// SchemaVersion of the reports; within a version members are only added (docs/cli-json.md).
const SchemaVersion = 1

// Report is what profile, oom, fragment and monitor write. Its members have the names and the nesting of both
// generations of the tools that these commands replace, so that programs which read those reports can read ours.
type Report struct {
	SchemaVersion int     `json:"schema_version"`
	Tool          string  `json:"report"`
	Timestamp     string  `json:"timestamp"`
	Started       *string `json:"started"`
	Duration      float64 `json:"duration_seconds"`
	Interval      float64 `json:"interval_seconds"`
	Interrupted   bool    `json:"interrupted"`
	Session       *string `json:"session"` // null: the whole machine

	Verdict            string     `json:"verdict"`    // fine, watch, at risk, leak, fragmented, undecided
	Confidence         *float64   `json:"confidence"` // 0 to 1; null with undecided
	ConfidenceInterval *[2]Number `json:"confidence_interval"`
	Evidence           []string   `json:"evidence"`

	Peaks           []detect.Peak            `json:"peaks,omitempty"` // of a session's trainings
	Devices         map[string]*DeviceReport `json:"devices"`
	Summary         Summary                  `json:"summary"`
	Events          []EventReport            `json:"events"`
	Recommendations []string                 `json:"recommendations"`
	Overhead        Overhead                 `json:"overhead"`
}

// Number is null in JSON where it is not finite.
type Number float64

// MarshalJSON writes at most six decimals.
func (n Number) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return fmt.Appendf(nil, "%v", math.Round(f*1e6)/1e6), nil
}

// DeviceReport is one device.
type DeviceReport struct {
	Name          string           `json:"name"`
	LimitKind     string           `json:"limit_kind"`
	CurrentUsage  Usage            `json:"current_usage"`
	CurrentMemory Memory           `json:"current_memory"`
	PeakMemory    int64            `json:"peak_memory"`
	Statistics    Statistics       `json:"statistics"`
	Risk          *RiskReport      `json:"risk_assessment"`
	Fragmentation *FragmentReport  `json:"fragmentation"`
	Snapshots     []SnapshotReport `json:"snapshots,omitempty"`
	Error         *string          `json:"error"`
}

// Usage and Memory are the same figures under the names of either generation.
type Usage struct {
	Allocated   int64  `json:"allocated"`
	Free        int64  `json:"free"`
	Total       int64  `json:"total"`
	Utilization Number `json:"utilization_percent"`
	Reserved    int64  `json:"reserved"`
}

// Memory: see Usage.
type Memory struct {
	Allocated   int64  `json:"allocated"`
	Free        int64  `json:"free"`
	Total       int64  `json:"total"`
	Utilization Number `json:"utilization"`
}

// Statistics are over all readings; percent of the limit.
type Statistics struct {
	AvgUtilization   Number  `json:"avg_utilization"`
	MaxUtilization   Number  `json:"max_utilization"`
	Samples          int     `json:"samples_count"`
	Snapshots        int     `json:"num_snapshots"`
	AvgFragmentation *Number `json:"avg_fragmentation"` // percent; null where there are no blocks
}

// RiskReport is the OOM risk.
type RiskReport struct {
	Level        Level    `json:"risk_level"`
	Worst        Level    `json:"worst_risk_level"`
	Confidence   Number   `json:"confidence"`
	Usage        Number   `json:"current_usage_percent"`
	Growth       Number   `json:"growth_rate_mb_per_sec"`
	GrowthLow    Number   `json:"growth_rate_low_mb_per_sec"`
	GrowthHigh   Number   `json:"growth_rate_high_mb_per_sec"`
	Seconds      *Number  `json:"predicted_oom_time_seconds"` // null: none in sight
	SecondsLow   *Number  `json:"predicted_oom_low_seconds"`
	SecondsHigh  *Number  `json:"predicted_oom_high_seconds"`
	Steps        *Number  `json:"predicted_oom_steps"`
	Within1      Number   `json:"probability_within_1_step"`
	Within10     Number   `json:"probability_within_10_steps"`
	Within100    Number   `json:"probability_within_100_steps"`
	WithinMinute Number   `json:"probability_within_60_seconds"`
	Amplitude    int64    `json:"step_amplitude_bytes"`
	Shape        string   `json:"shape"`
	Reason       string   `json:"reason"`
	Limit        int64    `json:"limit_bytes"`
	LimitKind    string   `json:"limit_kind"`
	Advice       string   `json:"recommendation"`
	AdviceList   []string `json:"recommendations"`
}

// FragmentReport is the free memory between blocks in use.
type FragmentReport struct {
	Source         string  `json:"source"`
	Why            *string `json:"why"` // what is missing when there are no blocks; the figures are null then
	Percent        *Number `json:"fragmentation_percent"`
	Held           int64   `json:"held_bytes"`
	InUse          int64   `json:"in_use_bytes"`
	Free           int64   `json:"free_in_holes_bytes"`
	Spare          int64   `json:"spare_bytes"`
	Holes          int64   `json:"holes"`
	LargestHole    int64   `json:"largest_hole_bytes"`
	LargestRequest int64   `json:"largest_request_bytes"`
	Reclaimable    int64   `json:"reclaimable_bytes"`
	// held as address space only: given back to the kernel, or never used
	Absent         int64        `json:"absent_bytes"`
	Lost           int64        `json:"lost_bytes"` // in holes, with pages behind them
	Sizes          []ClassJSON  `json:"hole_sizes"`
	Trend          string       `json:"trend"` // rising, stable, falling, unknown
	TrendPerSecond Number       `json:"trend_bytes_per_second"`
	Processes      []HeapReport `json:"processes"`
}

// ClassJSON is a class of hole sizes.
type ClassJSON struct {
	From  int64 `json:"from_bytes"`
	To    int64 `json:"to_bytes"`
	Count int64 `json:"count"`
	Bytes int64 `json:"bytes"`
}

// HeapReport is one process's allocator.
type HeapReport struct {
	PID         int    `json:"pid"`
	Rank        *int   `json:"rank"`
	Percent     Number `json:"fragmentation_percent"`
	Held        int64  `json:"held_bytes"`
	InUse       int64  `json:"in_use_bytes"`
	Free        int64  `json:"free_in_holes_bytes"`
	Holes       int64  `json:"holes"`
	LargestHole int64  `json:"largest_hole_bytes"`
	Reclaimable int64  `json:"reclaimable_bytes"`
}

// SnapshotReport is one kept sample.
type SnapshotReport struct {
	Timestamp   string  `json:"timestamp"`
	Seconds     float64 `json:"seconds"`
	Allocated   int64   `json:"allocated"`
	Peak        int64   `json:"peak"`
	Reserved    int64   `json:"reserved"`
	Total       int64   `json:"total"`
	Utilization Number  `json:"utilization"`
	Step        *Number `json:"step"`
}

// Summary covers all devices.
type Summary struct {
	Devices     int    `json:"total_devices"`
	MemoryGB    Number `json:"total_memory_gb"` // 2^30 bytes, as in the tools that the field comes from
	Utilization Number `json:"overall_utilization"`
}

// EventReport is something that happened.
type EventReport struct {
	Timestamp string  `json:"timestamp"`
	Seconds   float64 `json:"seconds"`
	Text      string  `json:"text"`
	Bad       bool    `json:"bad"`
}

// Overhead is what watching cost.
type Overhead struct {
	Ticks       int     `json:"ticks"`
	ReadSeconds float64 `json:"read_seconds"`
	Share       Number  `json:"share_of_one_core"`
}

// What selects the contents of a report.
type What struct {
	Tool        string // profile, oom, fragment, monitor
	Session     string // "" for the whole machine
	Interrupted bool
	Ended       string // how the session ended; "" while it lives
	Snapshots   bool
	Now         time.Time
}

// Report puts together what was seen.
func (w *Watch) Report(what What) *Report {
	r := &Report{SchemaVersion: SchemaVersion, Tool: what.Tool, Timestamp: stamp(what.Now),
		Duration: math.Round(w.Seconds()*1e3) / 1e3, Interval: seconds(w.o.Interval), Interrupted: what.Interrupted,
		Devices: map[string]*DeviceReport{}, Evidence: []string{}, Events: []EventReport{}, Recommendations: []string{}}
	if what.Session != "" {
		r.Session = &what.Session
	}
	if what.Ended != "" {
		r.Evidence = append(r.Evidence, "the session has ended: "+what.Ended)
	}
	if !w.Started.IsZero() {
		s := stamp(w.Started)
		r.Started = &s
	}
	var used, total int64
	for _, t := range w.Devices {
		r.Devices[t.Device.ID] = t.report(what)
		used, total = used+t.History.Last.Used, total+t.History.Last.Total
		r.Recommendations = append(r.Recommendations, t.Risk.Advice...)
	}
	r.Summary = Summary{len(w.Devices), Number(float64(total) / (1 << 30)), share(used, total)}
	for _, e := range w.Events {
		r.Events = append(r.Events, EventReport{stamp(e.Time), e.Time.Sub(w.Started).Seconds(), e.Text, e.Bad})
	}
	r.Peaks = w.Peaks
	r.Overhead = Overhead{w.Ticks, w.Cost.Seconds(), 0}
	if d := w.Seconds(); d > 0 {
		r.Overhead.Share = Number(w.Cost.Seconds() / d)
	}
	w.conclude(r)
	return r
}

// conclude returns the verdict: that of the worst device.
func (w *Watch) conclude(r *Report) {
	if r.Tool == "fragment" {
		w.concludeFragment(r)
		return
	}
	r.Verdict = "undecided"
	for _, leak := range w.Leaks {
		r.Evidence = append(r.Evidence, "LEAK "+leak)
	}
	defer func() {
		if len(w.Leaks) > 0 && r.Verdict != "at risk" {
			r.Verdict = "leak"
		}
	}()
	worst := Level(-1)
	for _, t := range w.Devices {
		if t.History.Len() == 0 {
			continue
		}
		r.Evidence = append(r.Evidence, t.evidence())
		if t.Risk.Level <= worst {
			continue
		}
		worst = t.Risk.Level
		r.Verdict, r.Confidence = [...]string{"fine", "watch", "at risk", "at risk"}[worst], nil
		if c := float64(t.Risk.confidence()); c >= 0.5 || worst > Low {
			r.Confidence = &c
		} else if !t.of.Over {
			r.Verdict = "undecided" // usage is no risk, and whether it grows is unknown
		}
		if t.Risk.Predicted {
			r.ConfidenceInterval = &[2]Number{Number(t.Risk.SecondsLow), Number(t.Risk.SecondsHigh)}
		}
	}
}

func (w *Watch) concludeFragment(r *Report) {
	r.Verdict = "undecided"
	one := 1.0
	for _, t := range w.Devices {
		if len(t.Blocks.Looks) == 0 {
			if t.Blocks.Why != "" {
				r.Evidence = append(r.Evidence, t.Device.Label()+": "+t.Blocks.Why)
			}
			continue
		}
		s := t.Blocks.Looks[len(t.Blocks.Looks)-1].Sum()
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s: %s of %s (%.1f %%) lie in %s holes, the largest %s",
			t.Device.Label(),
			units.Bytes(s.Holes.Bytes), units.Bytes(s.Held), s.Percent(), units.Count(s.Holes.Count),
			units.Bytes(s.Holes.Largest))+
			given(&s))
		if r.Verdict == "undecided" {
			r.Verdict = "fine"
		}
		if s.Bad() || t.Device.ID != Host && s.Unfit() {
			r.Verdict = "fragmented"
			r.Recommendations = append(r.Recommendations,
				fragmentAdvice(t.Device, &t.Blocks.Looks[len(t.Blocks.Looks)-1])...)
		}
		r.Confidence = &one // the blocks were counted, not estimated
	}
}

// Fragmented reports whether the holes deserve action.
func (w *Watch) Fragmented() bool {
	for _, t := range w.Devices {
		if n := len(t.Blocks.Looks); n > 0 {
			if s := t.Blocks.Looks[n-1].Sum(); s.Bad() || t.Device.ID != Host && s.Unfit() {
				return true
			}
		}
	}
	return false
}

func (t *Track) evidence() string {
	last := t.History.Last
	text := fmt.Sprintf("%s: %s of %s (%.1f %%), peak %s", t.Device.Label(), units.Bytes(last.Used),
		units.Bytes(last.Total), last.Percent(), units.Bytes(t.History.peakBytes))
	if t.Risk.Reason != "" {
		text += "; " + forecastWords(&t.Risk)
	}
	return text
}

// RiskOf is a device's risk as reports show it; nil for a device that is not watched.
func (w *Watch) RiskOf(device string) *RiskReport {
	for _, t := range w.Devices {
		if t.Device.ID == device {
			return t.Risk.report(&t.History.Last)
		}
	}
	return nil
}

// forecastWords describes the trend, or says why none is known.
func forecastWords(r *Risk) string {
	if r.Shape == forecast.Unclear {
		return "no forecast: " + r.Reason
	}
	return r.Reason
}

func (t *Track) report(what What) *DeviceReport {
	last := t.History.Last
	d := &DeviceReport{Name: t.Device.Name, LimitKind: last.Kind, PeakMemory: t.History.peakBytes,
		CurrentUsage:  Usage{last.Used, last.Free(), last.Total, Number(last.Percent()), last.Reserved},
		CurrentMemory: Memory{last.Used, last.Free(), last.Total, Number(last.Percent())},
		Statistics: Statistics{MaxUtilization: Number(t.History.peak), Samples: t.History.count,
			Snapshots: len(t.History.samples)}}
	if t.History.count > 0 {
		d.Statistics.AvgUtilization = Number(t.History.average())
		d.Risk = t.Risk.report(&last)
	}
	if t.Lost != "" {
		d.Error = &t.Lost
	}
	if f := t.Blocks.report(); f != nil {
		d.Fragmentation = f
		d.Statistics.AvgFragmentation = t.Blocks.average()
	}
	if what.Snapshots {
		d.Snapshots = t.History.report()
	}
	return d
}

// confidence returns the confidence of the level. A predicted time has its own. A level that follows from usage alone
// is measured. Where nothing grows, it is the certainty of that. Otherwise nothing is known: 0.
func (r *Risk) confidence() Number {
	switch {
	case r.Predicted:
		return Number(r.Forecast.Confidence)
	case r.Level > Low:
		return measured
	case r.Shape == forecast.Unclear:
		return 0
	case r.Shape == forecast.Flat:
		return Number(r.Forecast.Confidence)
	}
	return Number(min(measured, 1-r.WithinMinute))
}

// measured is the confidence in a value that was read and not inferred.
const measured = 0.99

func (r *Risk) report(last *Reading) *RiskReport {
	const mb = 1 << 20
	out := &RiskReport{Level: r.Level, Worst: r.Worst, Confidence: r.confidence(), Usage: Number(last.Percent()),
		Growth: Number(r.Growth / mb), GrowthLow: Number(r.GrowthLow / mb), GrowthHigh: Number(r.GrowthHigh / mb),
		Within1: Number(r.Within1), Within10: Number(r.Within10), Within100: Number(r.Within100),
		WithinMinute: Number(r.WithinMinute), Amplitude: int64(r.Amplitude), Shape: string(r.Shape), Reason: r.Reason,
		Limit: last.Total, LimitKind: last.Kind, Advice: "none needed", AdviceList: append([]string{}, r.Advice...)}
	switch {
	case len(r.Advice) > 0:
		out.Advice = r.Advice[0]
	case r.Level == Low && out.Confidence < 0.5 && r.Reason != "":
		out.Advice = "none so far: " + r.Reason // nobody knows whether any is needed
	}
	if r.Predicted {
		out.Seconds, out.SecondsLow, out.SecondsHigh = number(r.Seconds), number(r.SecondsLow), number(r.SecondsHigh)
		if r.Steps > 0 {
			out.Steps = number(r.Steps)
		}
	}
	return out
}

func (h *History) report() []SnapshotReport {
	out := make([]SnapshotReport, 0, len(h.samples))
	for _, s := range h.samples {
		j := SnapshotReport{Timestamp: stamp(s.Time), Seconds: s.Time.Sub(h.samples[0].Time).Seconds(),
			Allocated: s.Used, Peak: s.High, Reserved: s.Reserved, Total: s.Total, Utilization: share(s.Used, s.Total)}
		if s.Step > 0 {
			j.Step = number(s.Step)
		}
		out = append(out, j)
	}
	return out
}

func (b *BlockHistory) report() *FragmentReport {
	if len(b.Looks) == 0 {
		if b.Why == "" {
			return nil
		}
		return &FragmentReport{Why: &b.Why, Trend: "unknown", Sizes: []ClassJSON{}, Processes: []HeapReport{}}
	}
	last := &b.Looks[len(b.Looks)-1]
	s := last.Sum()
	perSecond, trend := b.trend()
	out := &FragmentReport{Source: s.Source, Percent: number(s.Percent()), Held: s.Held, InUse: s.InUse,
		Free: s.Holes.Bytes, Spare: s.Spare, Holes: s.Holes.Count, LargestHole: s.Holes.Largest,
		LargestRequest: s.LargestRequest, Reclaimable: s.Reclaimable, Absent: s.Absent, Lost: s.Lost(),
		Sizes: []ClassJSON{}, Trend: trend, TrendPerSecond: Number(perSecond), Processes: []HeapReport{}}
	for _, c := range s.Holes.Sizes {
		out.Sizes = append(out.Sizes, ClassJSON(c))
	}
	for _, a := range last.Of {
		p := HeapReport{PID: a.PID, Percent: Number(a.State.Percent()), Held: a.State.Held, InUse: a.State.InUse,
			Free: a.State.Holes.Bytes, Holes: a.State.Holes.Count, LargestHole: a.State.Holes.Largest,
			Reclaimable: a.State.Reclaimable}
		if a.Rank >= 0 {
			p.Rank = &a.Rank
		}
		out.Processes = append(out.Processes, p)
	}
	return out
}

func (b *BlockHistory) average() *Number {
	if len(b.Looks) == 0 {
		return nil
	}
	sum := 0.0
	for i := range b.Looks {
		s := b.Looks[i].Sum()
		sum += s.Percent()
	}
	return number(sum / float64(len(b.Looks)))
}

func number(f float64) *Number {
	n := Number(f)
	return &n
}

func share(part, whole int64) Number {
	if whole <= 0 {
		return 0
	}
	return Number(100 * float64(part) / float64(whole))
}

func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }
