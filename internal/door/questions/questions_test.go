package questions_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	q "github.com/memgauge/memgauge/internal/door/questions"
	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
	"github.com/memgauge/memgauge/test/fakesession"
)

// asked runs a question and says how many rows it has.
func asked[T any](question q.Of[T]) func(context.Context, api.Querier) (int, error) {
	return func(ctx context.Context, db api.Querier) (int, error) {
		rows, err := api.Ask(ctx, db, question)
		return len(rows), err
	}
}

// TestEveryQuestionIsAnswered: each statement runs on the tables, of a job with everything and of one with nothing, and
// finds there what it is about.
func TestEveryQuestionIsAnswered(t *testing.T) {
	at, pid := fakesession.Now.UnixMicro(), fakesession.Rank0
	full, empty := fakesession.Stored(t, fakesession.Rows()), fakesession.Stored(t, &model.Batch{})
	list := map[string]func(context.Context, api.Querier) (int, error){
		"findings": asked(q.Findings(0)), "last findings": asked(q.LastFindings),
		"first seen": asked(q.FirstSeen),
		"span":       asked(q.Span), "events": asked(q.Events(10)),
		"happened": asked(q.Happened(500)), "costs": asked(q.Costs), "cost in all": asked(q.CostInAll),
		"cost by side": asked(q.CostBySide),
		"drops?":       asked(q.Drops(10)), "holdings": asked(q.Holdings), "censuses": asked(q.Censuses()),
		"censuses of one": asked(q.Censuses(int(pid))), "host holdings?": asked(q.HostHoldings(0)),
		"host holdings then?": asked(q.HostHoldings(at)),
		"leaked?":             asked(q.LeakedHoldings(0)), "holders": asked(q.Holders(at)),
		"resident": asked(q.ResidentAt(at)), "devices then": asked(q.DevicesAt(at)), "peaks": asked(q.Peaks),
		"largest": asked(q.Largest(9)), "foremost": asked(q.Foremost(9)), "tree": asked(q.Tree),
		"brief": asked(q.Brief), "cgroups": asked(q.Cgroups),
		"devices?": asked(q.Devices), "naming": asked(q.Naming("it's:3")), "now": asked(q.Now),
		"shown": asked(q.AllShown), "step points": asked(q.StepPoints(int(pid), 2)),
		"memory points": asked(q.MemoryPoints(int(pid), 100)),
		"dates":         asked(q.Dates([]q.Stretch{{I: 1, PID: int(pid), Low: 1, High: 2}})),
		"last steps":    asked(q.LastSteps), "step devices?": asked(q.StepDevices), "charged": asked(q.Charged),
		"host": asked(q.Host), "gpus": asked(q.GPUs), "all censuses": asked(q.AllCensuses),
		"groups": asked(q.Groups(int64(pid), 2, 1)), "objects?": asked(q.Objects(int64(pid), 2)),
		"tensor groups": asked(q.TensorGroups(int(pid), 2)), "object groups?": asked(q.ObjectGroups(int(pid), 2)),
		"native lines?": asked(q.NativeLines), "native stacks?": asked(q.NativeStacks),
		"native readings": asked(q.NativeReadings), "native frames?": asked(q.NativeFrames),
		"native off?":     asked(q.NativeOff(q.NativeSettled, q.NativeNow)),
		"native settled?": asked(q.NativeAt(q.NativeSettled)), "native peak?": asked(q.NativeAt(q.NativePeak)),
		"native now?": asked(q.NativeAt(q.NativeNow)), "native after?": asked(q.NativeAt(q.NativeAfter(5))),
		"native start?": asked(q.NativeAt(q.NativeStart)), "ran out?": asked(q.RanOut), "minute?": asked(q.Minute(at)),
		"raised?": asked(q.Raised), "traced": asked(q.TracedSteps),
		"recent": asked(q.Recent(nil, false, 1)), "recent later": asked(q.Recent(map[string]int64{"m": at}, true, 5)),
	}
	for _, k := range []string{"job", "host", "process", "device", "allocator", "floors"} {
		track, err := q.TrackOf(k, int64(pid), 0, "/job's")
		if err != nil {
			t.Fatal(err)
		}
		list["track "+k+"?"] = asked(track.In(q.Interval{From: 0, To: at, Width: 1 << 50}))
		list["covers "+k] = asked(track.Covers())
	}
	for _, m := range []detect.Kind{detect.Heap, detect.Private, detect.Anon, detect.Device, detect.Reserved,
		detect.Worker, detect.Shared, detect.Mapped} {
		f := detect.Finding{Memory: m, PID: int(pid), Device: "cuda:0"}
		list[fmt.Sprintf("readings of %s?", m)] = asked(q.Readings(&f))
	}
	for name, ask := range list {
		if n, err := ask(t.Context(), full); err != nil || n == 0 && name[len(name)-1] != '?' {
			t.Errorf("%s: %d rows, %v", name, n, err)
		}
		if _, err := ask(t.Context(), empty); err != nil {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
}

// TestResidentMemoryIsSplitOnce: the statement and the function divide anonymous memory alike, whatever malloc says.
func TestResidentMemoryIsSplitOnce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	b := &model.Batch{}
	const begin = int64(1_700_000_000_000_000)
	for i := range 40 {
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: begin, PID: int32(100 + i), StartTicks: 1,
			Rank: -1, Anon: random.Int64N(1000), HeapInUse: random.Int64N(1500), HeapHeld: random.Int64N(1500)})
	}
	rows, err := api.Ask(t.Context(), fakesession.Stored(t, b), q.ResidentAt(begin+5))
	if err != nil || len(rows) != 40 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	for _, r := range rows {
		p := b.Samples.Memory[r.PID-100]
		used, free, rest := q.Split(p.Anon, p.HeapInUse, p.HeapHeld)
		if got := []int64{*r.HeapInUse, *r.HeapFree, *r.Anonymous}; !slices.Equal(got, []int64{used, free, rest}) ||
			used+free+rest != p.Anon || min(used, free, rest) < 0 {
			t.Errorf("%d of which %d of %d: %v and %d, %d, %d", p.Anon, p.HeapInUse, p.HeapHeld, got, used, free, rest)
		}
	}
}

// TestAMissingHeapIsNoAnonymousMemory: where the heap was not read, a stretch has neither the heap's parts nor memory
// that would look like growth of another class, also where its neighbours in the same stretch were read.
func TestAMissingHeapIsNoAnonymousMemory(t *testing.T) {
	const begin = int64(1_700_000_000_000_000)
	b := &model.Batch{}
	for i, heap := range []int64{600, model.Null, 600, model.Null} { // read, missing; missing after a reading
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: begin + int64(i)*10, PID: 7,
			StartTicks: 1, Rank: -1, RSS: 1000, Anon: 900, HeapInUse: heap, HeapHeld: heap})
	}
	track, err := q.TrackOf("process", 7, 0, "")
	if err != nil {
		t.Fatal(err)
	}
	s := fakesession.Stored(t, b)
	for _, x := range []struct {
		to   int64
		want map[string]float64
	}{
		{begin, map[string]float64{"heap_in_use": 600, "heap_free": 0, "anonymous": 300}},
		{begin + 10, map[string]float64{"undivided": 900}},
		{begin + 20, map[string]float64{"heap_in_use": 600, "heap_free": 0, "anonymous": 300}},
		{begin + 30, map[string]float64{"undivided": 900}},
	} {
		rows, err := api.Ask(t.Context(), s, track.In(q.Interval{From: begin, To: x.to, Width: 1 << 40}))
		if err != nil || len(rows) != 1 {
			t.Fatalf("%d rows: %v", len(rows), err)
		}
		got := map[string]float64{}
		for i, p := range track.Parts {
			if v := rows[0].Parts[i]; v != nil && p.Name != "file" && p.Name != "shared" {
				got[p.Name] = *v
			}
		}
		if !maps.Equal(got, x.want) {
			t.Errorf("to %d: %v, not %v", x.to-begin, got, x.want)
		}
	}
}

// TestTheirEvents: a user sees neither that an eval begins nor our own questions, in no view of the events.
func TestTheirEvents(t *testing.T) {
	b := &model.Batch{}
	for i, e := range [][2]string{{"start", ""}, {"eval begin", "x"}, {"eval", "x"}, {"note", "n"},
		{"eval", `__import__("builtins")("memgauge")`}, {"oom", "o"}} {
		b.Events = append(b.Events, model.Event{Time: int64(1e15) + int64(i), Rank: -1, Name: e[0], Text: e[1]})
	}
	db := fakesession.Stored(t, b)
	names := func(question q.Of[q.Event]) (list []string) {
		rows, err := api.Ask(t.Context(), db, question)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			list = append(list, r.Name)
		}
		return list
	}
	rows, err := api.Ask(t.Context(), db, q.Recent(nil, false, 1))
	if err != nil {
		t.Fatal(err)
	}
	var top []string
	for _, r := range rows {
		top = append(top, r.Name)
	}
	want := []string{"start", "eval", "note", "oom"}
	if all := names(q.Events(9)); !reflect.DeepEqual(all, want) || !reflect.DeepEqual(top, want) {
		t.Errorf("the page has %v, top %v", all, top)
	}
	if newest := names(q.Events(2)); !reflect.DeepEqual(newest, want[2:]) {
		t.Errorf("the newest two are %v", newest)
	}
	if told := names(q.Happened(9)); !reflect.DeepEqual(told, []string{"eval", "oom"}) {
		t.Errorf("a picture shows %v", told)
	}
}

// TestBrief: peak and limit are of one memory, the cgroup's where its limit binds; of a leak the list has its pace and
// holder, and a line has what the largest process held.
func TestBrief(t *testing.T) {
	b := &model.Batch{}
	for i := range int64(90) {
		at := int64(1e15) + i*1e6
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: at, PID: 7, Rank: -1,
			RSS: (100 + i) << 20})
		b.Samples.Cgroups = append(b.Samples.Cgroups, model.CgroupMemory{Time: at, Path: "/job",
			Current: (50 + i) << 20, Limit: 200 << 20})
	}
	b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: 7, Rank: -1, PeakRSS: 900 << 20})
	row, err := api.Ask(t.Context(), fakesession.Stored(t, b), q.Brief)
	if err != nil || len(row) != 1 {
		t.Fatal(row, err)
	}
	x := row[0]
	if *x.Peak != 139<<20 || *x.Limit != 200<<20 || x.Rate != nil || x.Holder != nil {
		t.Errorf("peak %d of %d, leak %v by %v", *x.Peak>>20, *x.Limit>>20, x.Rate, x.Holder)
	}
	if n := len(x.Line); n != 60 || x.Line[0] != 101<<20 || x.Line[n-1] != 189<<20 {
		t.Errorf("a line of %d: %v", n, x.Line)
	}
}

// TestCgroups: a cgroup is the job's own where it has a limit, or where the session held at least half of what was in
// it; those come first.
func TestCgroups(t *testing.T) {
	b := &model.Batch{}
	held := func(pid int32, cgroup string, anon int64) {
		b.Samples.Tree = append(b.Samples.Tree, model.TreeProcess{PID: pid, Rank: -1, Cgroup: cgroup})
		b.Samples.Memory = append(b.Samples.Memory, model.ProcessMemory{Time: 1e15, PID: pid, Rank: -1, Anon: anon})
	}
	held(7, "/user.slice/mine", 100)
	held(8, "/alone/below", 300)
	held(9, "/pod", 10)
	for path, c := range map[string]model.CgroupMemory{"/user.slice": {Anon: 9000, Limit: model.Null},
		"/alone": {Anon: 400, Limit: model.Null}, "/pod": {Anon: 800, Limit: 1000}} {
		c.Time, c.Path, c.Current = 1e15, path, c.Anon
		b.Samples.Cgroups = append(b.Samples.Cgroups, c)
	}
	got, err := api.Ask(t.Context(), fakesession.Stored(t, b), q.Cgroups)
	want := []q.Cgroup{{Path: "/pod", Own: true}, {Path: "/alone", Own: true}, {Path: "/user.slice"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestCensusesOfALeakComeFirst: that is the process to look at, though another's census is newer.
func TestCensusesOfALeakComeFirst(t *testing.T) {
	b := &model.Batch{Findings: []model.Finding{{Time: 1e15, Judgement: 1, Run: "leak", Verdict: "leak", PID: 7}}}
	for i, pid := range []int32{7, 7, 8} {
		b.Tensors = append(b.Tensors, model.TensorGroup{Time: 1e15 + int64(i), PID: pid, Rank: -1, Census: int64(i + 1),
			Count: 1, Bytes: 1})
	}
	got, err := api.Ask(t.Context(), fakesession.Stored(t, b), q.AllCensuses)
	if err != nil || len(got) != 3 || got[0].ID != 2 || got[1].ID != 1 || got[2].PID != 8 {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestLeakedHoldings: a heap leak's holder has what grew until the moment, and no more than grew in all.
func TestLeakedHoldings(t *testing.T) {
	b := &model.Batch{Findings: []model.Finding{{Time: 1e15, Judgement: 1, Run: "leak", Verdict: "leak", PID: 7,
		Memory: "host heap", Rate: 1 << 20, Start: 10, Grown: 80 << 20, Holder: "kept"}}}
	for step := range int64(101) {
		b.Steps = append(b.Steps, model.Step{Time: 1e15 + step*1e6, PID: 7, Rank: -1, Step: step, Steps: 1,
			Device: -1})
	}
	db := fakesession.Stored(t, b)
	for at, want := range map[int64]int64{1e15 + 5e6: 0, 1e15 + 30e6: 20 << 20, 0: 80 << 20} {
		got, err := api.Ask(t.Context(), db, q.LeakedHoldings(at))
		if err != nil || len(got) != 1 || got[0] != (q.HostHolding{PID: 7, Holder: "kept", Bytes: want}) {
			t.Errorf("until %d: %+v, %v", at, got, err)
		}
	}
}

// TestCostOnce: the parts' costs and the one in all are of the same time, and so are those of each side.
func TestCostOnce(t *testing.T) {
	b := &model.Batch{Overheads: []model.Overhead{
		{Time: 1e15, PID: 7, Rank: -1, Part: "hooks", NS: 2e9, CoveredNS: 100e9, Gap: model.Null},
		{Time: 1e15, PID: 7, Rank: -1, Part: "census", NS: 1e9, CoveredNS: 2e9, Gap: model.Null},
		{Time: 1e15, Rank: -1, Part: "sampler: host", NS: 1e9, CoveredNS: 50e9, Gap: model.Null}}}
	db := fakesession.Stored(t, b)
	parts, err := api.Ask(t.Context(), db, q.Costs)
	all, allErr := api.Ask(t.Context(), db, q.CostInAll)
	sides, err2 := api.Ask(t.Context(), db, q.CostBySide)
	if err = errors.Join(err, err2); err != nil || allErr != nil || len(parts) != 3 ||
		len(sides) != 2 || len(all) != 1 {
		t.Fatal(parts, all, err, allErr)
	}
	if *parts[0].Share != 0.02 || *all[0].Share != 0.03 || all[0].Seconds != 3 {
		t.Errorf("%v of a run of 100 s, in all %v", *parts[0].Share, *all[0].Share)
	}
	if sides[0].Part != "trainer" || *sides[0].Share != 0.03 || sides[1].Part != "collector" ||
		*sides[1].Share != 0.02 {
		t.Errorf("%+v, %+v", sides[0], sides[1])
	}
}

// TestNativeBefore: what was allocated before samples began is told in bytes, with what they never see.
func TestNativeBefore(t *testing.T) {
	b := q.NativeBefore{PID: 7, Since: "noon", Bytes: 3 << 20}
	const want = "process 7: allocated before noon, when samples began: 3 MiB, not known by line"
	if got := b.String(); got != want {
		t.Errorf("it says %q", got)
	}
	b.Unseen = "mimalloc in libarrow.so"
	if got := b.String(); got != want+"; not seen is what it allocates by mimalloc in libarrow.so" {
		t.Errorf("it says %q", got)
	}
}
