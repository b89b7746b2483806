package anatomy

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/snapshot"
)

// What was live at each mark is what a plain sum of the events up to it gives.
func TestStages(t *testing.T) {
	for name, want := range map[string]int{"mosaic.pickle": 3, "h100-segments.pickle.gz": 24} {
		h := open(t, "../../testdata/snapshots/"+name)
		d := h.Devices[0]
		stages := h.Stages(d)
		if len(stages) != want {
			t.Errorf("%s: %d stages, want %d", name, len(stages), want)
		}
		plain := func(until int64) (live, most int64) {
			live = d.Before
			for i := d.From; i < d.To && h.Time[i] <= until; i++ {
				live, most = h.Live[i], max(most, h.Live[i])
			}
			return live, most
		}
		times := 0
		for _, s := range stages {
			start, _ := plain(s.Start.Time)
			end, most := plain(s.End.Time)
			if s.Start.Live != start || s.End.Live != end || s.Peak > most || s.Peak < max(start, end) || !s.Ended {
				t.Errorf("%s: %+v, want %d to %d, at most %d", name, s, start, end, most)
			}
		}
		for _, sum := range StageSums(stages) {
			times += sum.Times
			if sum.Start[0] > sum.Start[1] || sum.End[0] > sum.End[1] || sum.Peak < max(sum.Start[1], sum.End[1]) {
				t.Errorf("%s: %+v", name, sum)
			}
		}
		if times != len(stages) {
			t.Errorf("%s: %d passes in sums of %d", name, times, len(stages))
		}
	}
}

// A mark without an end lasts to the end of the history; marks of one name nest.
func TestStagesNest(t *testing.T) {
	h := historyOf(t, &snapshot.Snapshot{
		Traces: [][]snapshot.Event{{{Action: snapshot.Alloc, Addr: 512, Size: 10, Time: 5},
			{Action: snapshot.Alloc, Addr: 1024, Size: 20, Time: 15},
			{Action: snapshot.FreeCompleted, Addr: 1024, Size: 20, Time: 25}}},
		Annotations: []snapshot.Annotation{{Stage: "START", Name: "a 1", Time: 1},
			{Stage: "START", Name: "a 1", Time: 10}, {Stage: "END", Name: "a 1", Time: 20},
			{Stage: "END", Name: "b", Time: 22}},
	})
	stages := h.Stages(h.Devices[0])
	if len(stages) != 2 || stages[0].Ended || stages[0].Start.Row != None || stages[0].End.Live != 10 ||
		stages[0].Peak != 30 || !stages[1].Ended || stages[1].Start.Live != 10 || stages[1].End.Live != 30 {
		t.Errorf("%+v", stages)
	}
	sums := StageSums(stages)
	if len(sums) != 1 || sums[0].Name != "a N" || sums[0].Times != 2 || sums[0].Change != 30 {
		t.Errorf("%+v", sums)
	}
}

// The categories of the user add up with the others to what is live, and each has what its pattern finds.
func TestClassLevels(t *testing.T) {
	for _, name := range []string{"mosaic.pickle", "h100-expandable.pickle.gz"} {
		h := open(t, "../../testdata/snapshots/"+name)
		d := h.Devices[0]
		var rules []Rule
		for _, text := range []string{"mine=baz|_sa_block", "other=bar|forward", "never=^nowhere$"} {
			r, err := ParseRule(text)
			if err != nil {
				t.Fatal(err)
			}
			rules = append(rules, r)
		}
		levels := h.ClassLevels(d, rules, 7)
		if len(levels.Levels) != 7 || levels.Levels[6].Row != d.To-1 || levels.Peak.Row != d.Peak {
			t.Errorf("%s: %d levels, the last of %+v", name, len(levels.Levels), levels.Peak)
		}
		for _, l := range append(levels.Levels, levels.Peak) {
			sum := int64(0)
			for _, n := range l.Bytes {
				sum += n
			}
			if sum != l.Live || len(l.Bytes) != len(levels.Names) {
				t.Errorf("%s: event %d: %v are not %d", name, l.Row, l.Bytes, l.Live)
			}
		}
		var want int64
		h.alive(d, d.Peak, func(_, _ int, bytes int64, stack uint32) {
			for _, f := range h.framesOf(stack) {
				if strings.Contains(f.Name+"\n"+f.File, "baz") || strings.Contains(f.Name, "_sa_block") {
					want += bytes
					return
				}
			}
		})
		if levels.Names[0] != "mine" || levels.Peak.Bytes[0] != want || want == 0 {
			t.Errorf("%s: %s: %d, want %d", name, levels.Names[0], levels.Peak.Bytes[0], want)
		}
		if got := strings.Join(levels.Names, " "); strings.Contains(got, "never") {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, text := range []string{"", "a", "=b", "a=", "a=("} {
		if _, err := ParseRule(text); err == nil {
			t.Errorf("%q is a rule", text)
		}
	}
}
