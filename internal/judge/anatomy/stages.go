package anatomy

import (
	"cmp"
	"sort"

	"github.com/memgauge/memgauge/internal/base/order"
)

// Stage is one pass through a part of the program that it has marked (record_function, or the metadata that its events
// carry): what was live when it began and ended, and at most in between. Sizes are in bytes, times in µs since the
// epoch.
type Stage struct {
	Name     string `json:"name"`
	Metadata bool   `json:"metadata"` // Name is the text that _set_memory_metadata has set
	Start    Mark   `json:"start"`
	End      Mark   `json:"end"`   // without its mark, the end of the history
	Ended    bool   `json:"ended"` // there is a mark of its end
	Peak     int64  `json:"peak_bytes"`
}

// Mark is the moment of an annotation.
type Mark struct {
	Time     int64 `json:"time_us"`
	Row      int   `json:"row"` // the last event up to it; -1: before the first
	Live     int64 `json:"live_bytes"`
	Reserved int64 `json:"reserved_bytes"`
}

// StageSum is all passes through stages of one name; numbers in names are left out.
type StageSum struct {
	Name     string   `json:"name"`
	Metadata bool     `json:"metadata"`
	Times    int      `json:"times"`
	Start    [2]int64 `json:"start_bytes"`  // live when it began: least, most
	End      [2]int64 `json:"end_bytes"`    // live when it ended: least, most
	Change   int64    `json:"change_bytes"` // of what is live, from beginnings to ends, all together
	Peak     int64    `json:"peak_bytes"`
	PeakOf   int      `json:"peak_of"` // the pass with the peak, from 0
}

// Stages are the marked stages of a device in the order of their beginnings. A START of an annotation belongs to the
// next END of its name that no later START has.
func (h *History) Stages(d *Device) []Stage {
	stages := append(h.annotatedStages(d), h.metadataStages(d)...)
	order.Stable(stages, func(a, b Stage) int { return cmp.Compare(a.Start.Time, b.Start.Time) })
	return stages
}

func (h *History) annotatedStages(d *Device) (stages []Stage) {
	if d.From == d.To || h.Time[d.To-1] == 0 {
		return nil // nothing says where they belong
	}
	open := map[string][]int{} // places in stages
	for _, a := range h.Annotations {
		if a.Device != d.Number && len(h.Devices) > 1 {
			continue
		}
		places := open[a.Name]
		switch {
		case a.Stage == "START":
			open[a.Name] = append(places, len(stages))
			stages = append(stages, Stage{Name: a.Name, Start: h.markAt(d, a.Time)})
		case len(places) > 0:
			s := &stages[places[len(places)-1]]
			s.End, s.Ended = h.markAt(d, a.Time), true
			open[a.Name] = places[:len(places)-1]
		}
	}
	for i := range stages {
		s := &stages[i]
		if !s.Ended {
			s.End = h.markAt(d, h.Time[d.To-1])
		}
		s.Peak = max(s.Start.Live, s.End.Live)
		for row := max(s.Start.Row, d.From); row <= s.End.Row; row++ {
			s.Peak = max(s.Peak, h.Live[row])
		}
	}
	return stages
}

func (h *History) markAt(d *Device, t int64) Mark {
	row := d.From + sort.Search(d.To-d.From, func(i int) bool { return h.Time[d.From+i] > t }) - 1
	m := Mark{Time: t, Row: row, Live: h.liveAfter(d, row), Reserved: d.ReservedAt(row)}
	if row < d.From {
		m.Row = None
	}
	return m
}

// StageSums sums stages by name, in the order in which names first occur.
func StageSums(stages []Stage) (sums []StageSum) {
	type kind struct {
		name     string
		metadata bool
	}
	places := map[kind]int{}
	for _, s := range stages {
		of := kind{digits().ReplaceAllString(s.Name, "N"), s.Metadata}
		at, ok := places[of]
		if !ok {
			at = len(sums)
			places[of] = at
			sums = append(sums, StageSum{Name: of.name, Metadata: of.metadata,
				Start: [2]int64{s.Start.Live, s.Start.Live}, End: [2]int64{s.End.Live, s.End.Live}})
		}
		sum := &sums[at]
		if sum.Times == 0 || s.Peak > sum.Peak {
			sum.Peak, sum.PeakOf = s.Peak, sum.Times
		}
		sum.Times++
		sum.Start = [2]int64{min(sum.Start[0], s.Start.Live), max(sum.Start[1], s.Start.Live)}
		sum.End = [2]int64{min(sum.End[0], s.End.Live), max(sum.End[1], s.End.Live)}
		sum.Change += s.End.Live - s.Start.Live
	}
	return sums
}
