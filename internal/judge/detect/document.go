package detect

import (
	"cmp"
	"math"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
	"github.com/memgauge/memgauge/internal/formats/model"
)

// Document is the finding as it is stored and told.
func (f Finding) Document() model.Finding {
	d := model.Finding{Verdict: string(f.Verdict), Class: model.Text(f.Class), Memory: string(f.Memory), Name: f.Name(),
		Device: model.Text(f.Device), PID: int32(f.PID), Rank: model.Rank(f.Rank), Worker: f.Worker,
		Rate: model.MB(f.Rate), PerStep: model.MB(f.Rate), PerSecond: model.MB(f.PerSec), Low: model.MB(f.Low),
		High: model.MB(f.High), ByTime: f.ByTime, Unit: f.Unit(), Load: model.Text(f.Load),
		Start: model.Count(f.Start), End: int64(f.End), Grown: int64(f.Total), Noise: f.Noise, P: model.Chance(f.P),
		Readings: int64(f.N), Reason: f.Reason,
		Site: model.Text(f.Site), Lines: f.Lines, Holder: model.Text(f.Holder), Held: model.Text(f.Held),
		Evidence: lines(f.Evidence), Advice: lines(f.Advice), Limit: model.Text(f.Limit), Seconds: seconds(f.Seconds),
		Soonest: seconds(f.SecondsLow), Latest: seconds(f.SecondsHigh), LimitStep: model.Count(model.Null),
		LimitMet: f.Met, Ended: f.Over}
	if f.ByTime {
		d.PerStep, d.PerSecond = unknown, d.Rate
	}
	if f.Rate == 0 {
		d.Rate, d.PerStep, d.PerSecond, d.Low, d.High, d.P = unknown, unknown, unknown, unknown, unknown,
			model.Chance(unknown)
		d.Start = model.Count(model.Null)
	}
	if f.AtStep > 0 {
		d.LimitStep = model.Count(math.Round(f.AtStep))
	}
	if f.Verdict == Undecided {
		d.Missing = model.Text(f.Missing())
	}
	return d
}

var unknown = model.MB(math.NaN())

func seconds(s float64) model.Seconds {
	if s == 0 {
		return model.Seconds(unknown)
	}
	return model.Seconds(s)
}

func lines(list []string) model.Lines { return model.Lines(strings.Join(list, "\n")) }

// Documents are the findings as they are told; never nil.
func (r Report) Documents() []model.Finding {
	list := make([]model.Finding, len(r.Findings))
	for i, f := range r.Findings {
		list[i] = f.Document()
	}
	return list
}

// Read completes a finding that comes from its table: the memory's name, the unit, and the rate in it.
func Read(d model.Finding) model.Finding {
	f := Finding{Memory: Kind(d.Memory), Device: string(d.Device), PID: int(d.PID), Rank: int(d.Rank)}
	d.Name, d.Unit, d.Rate = f.Name(), cmp.Or(d.Unit, unitOf("", d.ByTime)), d.PerStep // an older row has no unit
	if d.ByTime {
		d.Rate = d.PerSecond
	}
	return d
}

// Pace is the rate of a finding with its unit, such as "+1.02 MiB/step", "+2 KiB/request" or, where there are no steps,
// "+1.2 MiB/s".
func Pace(d model.Finding) string {
	sign := "+"
	if d.Rate < 0 {
		sign = ""
	}
	return sign + units.Bytes(math.Round(float64(d.Rate))).String() + "/" + per(d.Unit)
}

// Compare is the order of findings wherever they are told: leaks first, the fastest before others.
func Compare(a, b model.Finding) int {
	rank := map[string]int{string(Leak): 0, string(Undecided): 1, string(Healthy): 2}
	faster := 0
	if a.Verdict == string(Leak) {
		faster = cmp.Compare(b.Rate, a.Rate)
	}
	return cmp.Or(cmp.Compare(rank[a.Verdict], rank[b.Verdict]), faster, cmp.Compare(a.Rank, b.Rank),
		cmp.Compare(a.PID, b.PID), strings.Compare(string(a.Device)+a.Memory, string(b.Device)+b.Memory))
}
