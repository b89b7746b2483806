package replay

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
	"github.com/memgauge/memgauge/internal/formats/snapshot"
)

// recording is a program whose allocator is recorded, as torch.cuda.memory._record_memory_history() records PyTorch's.
// The allocator is ours with PyTorch's rules. Package alloc compares it with a second reading of those rules, and with
// PyTorch's recorded trainings.
type recording struct {
	t    *testing.T
	a    *alloc.Allocator
	live []alloc.Ptr
	now  int64
}

func record(t *testing.T, conf string, capacity int64) *recording {
	t.Helper()
	s := setting(t, "torch", conf)
	r := &recording{t: t}
	s.Options.EventCapacity = 1 << 20
	s.Options.Clock = func() int64 { r.now += 1000; return r.now }
	a, err := alloc.New(fake.New(fake.Config{Capacity: capacity}), s.Options)
	if err != nil {
		t.Fatal(err)
	}
	r.a = a
	return r
}

func (r *recording) take(size int64, stream alloc.Stream) alloc.Ptr {
	r.t.Helper()
	p, err := r.a.Alloc(size, stream)
	if errors.Is(err, alloc.ErrOutOfMemory) {
		return 0
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.live = append(r.live, p)
	return p
}

func (r *recording) give(i int) {
	r.t.Helper()
	if err := r.a.Free(r.live[i]); err != nil {
		r.t.Fatal(err)
	}
	r.live[i] = r.live[len(r.live)-1]
	r.live = r.live[:len(r.live)-1]
}

func (r *recording) empty() {
	r.t.Helper()
	if _, err := r.a.EmptyCache(); err != nil {
		r.t.Fatal(err)
	}
}

// trace is what _dump_snapshot() returns at this moment, if only the events from first on were kept.
func (r *recording) trace(first int) *snapshot.Trace {
	r.t.Helper()
	from := r.a.Snapshot()
	s := &snapshot.Snapshot{Traces: [][]snapshot.Event{{}}}
	for _, g := range from.Segments {
		out := snapshot.Segment{Address: g.Addr, Size: g.Size, Stream: uint64(g.Stream), Kind: "small",
			Expandable: g.Virtual}
		if g.Large {
			out.Kind = "large"
		}
		for _, b := range g.Blocks {
			out.Blocks = append(out.Blocks, snapshot.Block{Address: b.Addr, Size: b.Size, Requested: b.Requested,
				State: snapshot.BlockState(b.State)})
		}
		s.Segments = append(s.Segments, out)
	}
	for _, e := range from.Events[first:] {
		s.Traces[0] = append(s.Traces[0], snapshot.Event{Action: snapshot.Action(e.Kind.String()), Addr: e.Addr,
			Size: e.Size, Stream: uint64(e.Stream), Time: e.Time / 1000})
	}
	t, err := s.Trace(0)
	if err != nil {
		r.t.Fatal(err)
	}
	return t
}

// exact fails when the replay of the recorded settings differs from the recording in a byte or a call.
func exact(t *testing.T, name, conf string, tr *snapshot.Trace) {
	t.Helper()
	s := setting(t, "torch", conf)
	s.Recorded = true
	r := run(t, tr, s, Unlimited)
	if tr.Recorded == nil || r.OOM != nil || r.PeakReserved != tr.Recorded.Peak || r.EndReserved != tr.Recorded.End ||
		r.DriverCalls != int64(tr.Recorded.SegmentOps) {
		t.Errorf("%s: peak %d, end %d, %d driver calls, OOM %v; recorded %+v", name, r.PeakReserved, r.EndReserved,
			r.DriverCalls, r.OOM, tr.Recorded)
	}
}

// An empty_cache that is followed at once by a request which no cached segment can serve leaves the same events as
// memory pressure: segment_free, then segment_alloc. The device held more before, so it was not full.
func TestEmptyCacheBeforeAllocation(t *testing.T) {
	r := record(t, "", 1<<40)
	for range 10 {
		r.take(100*mib, 0)
	}
	for len(r.live) > 2 {
		r.give(0)
	}
	r.take(30*mib, 0) // the program continues for a while
	r.empty()
	for range 6 {
		r.take(130*mib, 0)
	}
	tr := r.trace(0)
	exact(t, "whole", "", tr)
	exact(t, "from the middle", "", r.trace(15))
	a, err := Advise(t.Context(), tr, "", Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if a.Off() != 0 || a.Base.PeakReserved != tr.Recorded.Peak {
		t.Errorf("base %d, recorded %d", a.Base.PeakReserved, tr.Recorded.Peak)
	}
	for _, trial := range a.Trials {
		if most := tr.Recorded.Peak - trial.PeakRequested; a.Saved(&trial) > most {
			t.Errorf("%s saves %d of at most %d", trial.Setting, a.Saved(&trial), most)
		}
	}
}

// Memory pressure is not requested by the program: a setting that needs less does not give its cache back, and the
// replay is exact all the same.
func TestPressure(t *testing.T) {
	r := record(t, "", 1000*mib)
	for range 9 {
		r.take(100*mib, 0)
	}
	for len(r.live) > 1 {
		r.give(1)
	}
	r.take(500*mib, 0) // 900 are reserved: they have to go
	tr := r.trace(0)
	exact(t, "pressure", "", tr)
	p := newProgram(tr, false)
	if p.limit != 1400*mib {
		t.Errorf("the device has less than %d MiB", p.limit/mib)
	}
	if r := run(t, tr, setting(t, "vmm", ""), Unlimited); r.PeakReserved >= p.limit {
		t.Errorf("vmm reserves %d on a device of less than %d", r.PeakReserved, p.limit)
	}
}

// Random programs under each kind of settings, recorded from any event on: the replay is exact to the byte, and so is
// the number of driver calls.
func TestRandomProgramsAreExact(t *testing.T) {
	seeds, length := uint64(12), 1500
	if checked {
		seeds, length = 1, 150
	}
	confs := []string{"", "roundup_power2_divisions:4", "roundup_power2_divisions:[1:8,64:2,>:4]",
		"max_split_size_mb:64", "large_segment_size_mb:64",
		"max_split_size_mb:128,max_non_split_rounding_mb:40", "garbage_collection_threshold:0.5",
		"expandable_segments:True",
		"expandable_segments:True,large_segment_size_mb:64"}
	for _, conf := range confs {
		for seed := range seeds {
			for _, capacity := range []int64{1 << 40, 3 << 30} {
				r := record(t, conf, capacity)
				r.play(rand.New(rand.NewPCG(seed, 4)), length)
				n := len(r.a.Snapshot().Events)
				name := fmt.Sprintf("%q, seed %d, %d GiB", conf, seed, capacity>>30)
				exact(t, name, conf, r.trace(0))
				exact(t, name+" from the middle", conf, r.trace(n*int(seed)/int(2*seeds)))
			}
		}
	}
}

// play allocates on three streams, frees, and empties the cache now and then.
func (r *recording) play(rnd *rand.Rand, length int) {
	for range length {
		switch k := rnd.IntN(200); {
		case k == 0:
			r.empty()
		case k < 90 && len(r.live) > 0:
			r.give(rnd.IntN(len(r.live)))
		case len(r.live) > 60:
			for len(r.live) > 10 {
				r.give(rnd.IntN(len(r.live)))
			}
		default:
			r.take(1+rnd.Int64N(int64(1)<<(8+rnd.IntN(20))), alloc.Stream(rnd.IntN(3)))
		}
	}
}

func TestOffIsTold(t *testing.T) {
	r := record(t, "roundup_power2_divisions:1", 1<<40)
	for range 5 {
		r.take(65*mib, 0)
	}
	tr := r.trace(0)
	tr.Recorded.Peak -= 2 * mib // as if PyTorch had done better than its rules
	a, err := Advise(t.Context(), tr, "", Unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if a.Off() != 2*mib {
		t.Errorf("off by %d", a.Off())
	}
	for _, trial := range a.Trials {
		if a.Proven(&trial, 0.001) {
			t.Errorf("%s saves %d, which is said to be proven", trial.Setting, a.Saved(&trial))
		}
	}
}

// Everything that a snapshot of torch 2.15 says about its settings comes back as one configuration.
func TestRecordedConfKeepsAll(t *testing.T) {
	divisions := []snapshot.Setting{}
	for k := range 16 {
		n := int64(0)
		if k >= 8 {
			n = 4
		}
		divisions = append(divisions, snapshot.Setting{Name: fmt.Sprint(1 << k), Value: n})
	}
	s := &snapshot.Snapshot{Settings: []snapshot.Setting{
		{Name: "PYTORCH_CUDA_ALLOC_CONF",
			Value: "large_segment_size_mb:64, max_non_split_rounding_mb:80,max_split_size_mb:90," +
				"throw_on_cudamalloc_oom:True," +
				"pinned_max_cached_size_mb:10,garbage_collection_threshold:0.5,from_the_future:1"},
		{Name: "max_split_size", Value: int64(128 * mib)}, {Name: "garbage_collection_threshold", Value: 0.8},
		{Name: "expandable_segments", Value: false},
		{Name: "roundup_power2_divisions", Value: divisions}, {Name: "pinned_num_register_threads", Value: int64(4)}}}
	want := "max_split_size_mb:128,garbage_collection_threshold:0.8,roundup_power2_divisions:[1:0,2:0,4:0,8:0,16:0," +
		"32:0,64:0,128:0,256:4,512:4,1024:4,2048:4,4096:4,8192:4,16384:4,32768:4],pinned_num_register_threads:4," +
		"large_segment_size_mb:64,max_non_split_rounding_mb:80,throw_on_cudamalloc_oom:True," +
		"pinned_max_cached_size_mb:10"
	if got := RecordedConf(s.Settings); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if u := UnknownConf(s.Settings); len(u) != 1 || u[0] != "from_the_future:1" {
		t.Errorf("unknown: %v", u)
	}
	got, err := Recorded(s.Settings)
	if err != nil {
		t.Fatal(err)
	}
	o := got.Options
	if o.RoundupDivisions[7] != 0 || o.RoundupDivisions[8] != 4 || o.LargeSegmentSize != 64*mib ||
		o.MaxNonSplitRounding != 80*mib || !o.ThrowOnFull {
		t.Errorf("options %+v", o)
	}
}

// A file with addresses that no driver gives is replayed all the same, and reported as off.
func TestImpossibleAddresses(t *testing.T) {
	tr := &snapshot.Trace{Events: events(take(0x30001, 5*mib)),
		Recorded: &snapshot.Recorded{Peak: 50 * mib, End: 50 * mib}}
	tr.Mapped = []snapshot.Mapped{{Span: snapshot.Span{Addr: 0x12345, Size: 50*mib + 3}}}
	a, err := Advise(t.Context(), tr, "expandable_segments:True", Unlimited)
	if err != nil || a.Off() == 0 {
		t.Errorf("off by %d: %v", a.Off(), err)
	}
}
