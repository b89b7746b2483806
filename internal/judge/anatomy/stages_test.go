package anatomy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// What was live at each mark is what a plain sum of the events up to it gives.
func TestStages(t *testing.T) {
	for name, want := range map[string]int{"mosaic.pickle": 3, "h100-segments.pickle.gz": 24} {
		h := open(t, "../../../testdata/snapshots/"+name)
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
		h := open(t, "../../../testdata/snapshots/"+name)
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

// attached is a history in which the program has said what its allocations are for: "layer N" when they are made, and
// "kept" afterwards, of a block from before the history too.
func attached(t *testing.T) *History {
	return historyOf(t, &snapshot.Snapshot{
		Segments: []snapshot.Segment{{Address: 4096, Size: 4096, Blocks: []snapshot.Block{
			{Address: 4096, Size: 512, Requested: 500, State: snapshot.Allocated}}}},
		Traces: [][]snapshot.Event{{
			{Action: snapshot.Alloc, Addr: 512, Size: 10, Time: 1, Metadata: "layer 1"},
			{Action: snapshot.Alloc, Addr: 1024, Size: 20, Time: 2, Metadata: "layer 1"},
			{Action: "annotate", Addr: 512, Size: 10, Time: 3, Metadata: "kept"},
			{Action: "annotate", Addr: 4096, Size: 500, Time: 3, Metadata: "kept"},
			{Action: snapshot.FreeCompleted, Addr: 1024, Size: 20, Time: 4, Metadata: "layer 1"},
			{Action: snapshot.Alloc, Addr: 1024, Size: 40, Time: 5},
			{Action: snapshot.Alloc, Addr: 2048, Size: 80, Time: 6, Metadata: "layer 2"},
			{Action: snapshot.FreeCompleted, Addr: 512, Size: 10, Time: 7},
			{Action: snapshot.Alloc, Addr: 512, Size: 7, Time: 8}}},
	})
}

// Metadata makes a stage of what a thread did while one text was set; an annotation of a block neither makes nor ends
// one.
func TestStagesOfMetadata(t *testing.T) {
	h := attached(t)
	stages := h.Stages(h.Devices[0])
	if len(stages) != 2 || !stages[0].Metadata || !stages[0].Ended || stages[0].Start.Row != None ||
		stages[0].Start.Live != 500 || stages[0].End.Row != 4 || stages[0].End.Live != 510 ||
		stages[0].Peak != 530 || stages[1].Name != "layer 2" || stages[1].Start.Live != 550 ||
		stages[1].End.Live != 630 {
		t.Errorf("%+v", stages)
	}
	if sums := StageSums(stages); len(sums) != 1 || sums[0].Name != "layer N" || !sums[0].Metadata ||
		sums[0].Times != 2 || sums[0].Change != 90 {
		t.Errorf("%+v", sums)
	}
}

// A category finds what has a text that matches, from the beginning or by a later annotation, as long as it lives.
func TestClassLevelsOfMetadata(t *testing.T) {
	h := attached(t)
	d := h.Devices[0]
	kept, err := ParseRule("mine=kep")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		rules []Rule
		want  string
	}{
		{[]Rule{kept}, "[mine unknown] [510 20] [500 127]"},
		{h.MetadataRules(d, 9), "[layer N unknown] [30 500] [80 547]"},
		{append([]Rule{kept}, h.MetadataRules(d, 9)...), "[mine layer N unknown] [510 20 0] [500 80 47]"},
		{h.MetadataRules(d, 0), "[unknown] [530] [627]"},
	} {
		levels := h.ClassLevels(d, c.rules, d.To-d.From)
		got := fmt.Sprint(levels.Names, " ", levels.Levels[1].Bytes, " ", levels.Levels[8].Bytes)
		if got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	notes := h.NotesOf(d)
	if got := fmt.Sprint(h.Attached(notes, 0, 512), h.Attached(notes, None, 4096), h.Attached(notes, 8, 512)); got !=
		"[layer 1 kept] [kept] []" {
		t.Error(got)
	}
}
