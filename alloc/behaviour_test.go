package alloc_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/alloc"
	"github.com/memgauge/memgauge/alloc/fake"
)

func must(t testing.TB) func(p alloc.Ptr, err error) alloc.Ptr {
	return func(p alloc.Ptr, err error) alloc.Ptr {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func TestSettings(t *testing.T) {
	var o alloc.Options
	if err := o.Set("max_split_size_mb:128, expandable_segments:True," +
		"roundup_power2_divisions:[256:1,512:2,1024:4,>:8]," +
		"garbage_collection_threshold:0.8,backend:native,pinned_num_register_threads:4"); err != nil {
		t.Fatal(err)
	}
	want := [16]int64{1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 4, 8, 8, 8, 8, 8}
	if o.MaxSplitSize != 128<<20 || !o.ExpandableSegments || o.GCThreshold != 0.8 || o.RoundupDivisions != want {
		t.Errorf("read as %+v", o)
	}
	o = alloc.Options{}
	if err := o.Set(
		"gc_threshold=0.7,max_pool_size_mb=1024,max_split_size_mb=64,fragmentation_threshold=0.3"); err != nil {
		t.Fatal(err)
	}
	if o.GCThreshold != 0.7 || o.MaxCached != 1<<30 || o.MaxSplitSize != 64<<20 || o.FragmentationThreshold != 0.3 {
		t.Errorf("read as %+v", o)
	}
	for conf, says := range map[string]string{
		"max_split_size_mb:1": "at least 20971520", "max_split_size:1": "no such setting",
		"policy:best":                 "not one of torch",
		"expandable_segments:perhaps": "True or False", "garbage_collection_threshold:80": "from 0 to 1",
		"roundup_power2_divisions:[3:2]": "power of two", "roundup_power2_divisions:3": "power of two",
		"backend:cudaMallocAsync": "native",
		"max_split_size_mb":       "want name:value", "max_split_size_mb:-1": "not a number of MiB",
	} {
		o := alloc.Options{}
		if err := o.Set(conf); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q in it", conf, err, says)
		}
	}
}

func FuzzSettings(f *testing.F) {
	f.Add("max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8],warm_up_mb:[1:2]")
	f.Fuzz(func(t *testing.T, conf string) {
		o := alloc.Options{}
		if o.Set(conf) == nil && o.Policy == "" {
			t.Error("accepted without a policy")
		}
	})
}

// TestMisuse expects the right kind of error, in debug mode with both stacks.
func TestMisuse(t *testing.T) {
	a := newBench(t, alloc.Options{Debug: true})
	get := must(t)
	p := get(a.Alloc(5000, 0))
	q := get(a.Alloc(5000, 0))
	check := func(err, kind error, says ...string) {
		t.Helper()
		var m *alloc.MisuseError
		if !errors.Is(fmt.Errorf("wrapped: %w", err), kind) || !errors.As(err, &m) {
			t.Errorf("%v, want %v", err, kind)
			return
		}
		for _, s := range says {
			if !strings.Contains(err.Error(), s) {
				t.Errorf("does not say %q:\n%v", s, err)
			}
		}
	}
	check(a.Free(p+1), alloc.ErrInteriorPointer, "1 bytes into the block", "allocated at", "TestMisuse")
	check(a.FreeRequest(p, alloc.Request{Size: 4999}), alloc.ErrWrongSize, "has 5000 bytes, not 4999")
	check(a.FreeRequest(p, alloc.Request{Size: 5000, Stream: 3}), alloc.ErrWrongStream)
	check(a.Free(1<<30), alloc.ErrUnknownPointer)
	if err := a.Free(p); err != nil {
		t.Fatal(err)
	}
	check(a.Free(p), alloc.ErrDoubleFree, "allocated at", "freed at", "TestMisuse", "behaviour_test.go")
	check(a.Retain(p), alloc.ErrRetainAfterFree, "freed at")
	check(a.RecordStream(p, 1), alloc.ErrDoubleFree)
	if err := errors.Join(a.Retain(q), a.Free(q), a.Free(q)); err != nil {
		t.Error(err)
	}
	check(a.Free(q), alloc.ErrDoubleFree)
	if _, err := a.Alloc(-1, 0); !errors.Is(err, alloc.ErrBadSize) {
		t.Error(err)
	}
	if p, err := a.Alloc(0, 0); p != 0 || err != nil {
		t.Error(p, err)
	}
}

// TestWindows opens three overlapping windows, which measure what happened while they were open.
func TestWindows(t *testing.T) {
	a := newBench(t, alloc.Options{})
	get := must(t)
	w1 := a.Window()
	p := get(a.Alloc(10<<20, 0))
	w2 := a.Window()
	q := get(a.Alloc(30<<20, 1)) // on another stream: the peaks are the device's
	_ = a.Free(q)
	w3 := a.Window()
	_ = a.Free(p)
	w1.Close()
	get(a.Alloc(20<<20, 0))
	for i, c := range []struct {
		w                      *alloc.Window
		peak, allocated, freed int64
	}{{w1, 40 << 20, 40 << 20, 40 << 20}, {w2, 40 << 20, 50 << 20, 40 << 20}, {w3, 20 << 20, 20 << 20, 10 << 20}} {
		s := c.w.Stats().AllocatedBytes.All
		if s.Peak != c.peak || s.Allocated != c.allocated || s.Freed != c.freed {
			t.Errorf("window %d: %+v, want %+v", i+1, s, c)
		}
	}
	a.ResetStats()
	if s := a.Stats(); s.AllocatedBytes.All.Peak != 20<<20 || s.Hits+s.Misses != 0 {
		t.Errorf("after a reset: %+v", s.AllocatedBytes.All)
	}
	if s := w2.Stats(); s.AllocatedBytes.All.Peak != 40<<20 || s.Misses != 2 {
		t.Errorf("a reset has changed a window: %+v", s.AllocatedBytes.All)
	}
}

func TestWarmUp(t *testing.T) {
	for _, p := range alloc.Policies {
		a := newBench(t, alloc.Options{Policy: p, WarmUp: []int64{1000, 3 << 20, 64 << 20}})
		s := a.Stats()
		if s.Hits+s.Misses+s.AllocatedBytes.All.Current != 0 || s.ReservedBytes.All.Current < 67<<20 {
			t.Errorf("%s: warmed up to %+v with %d hits and %d misses", p, s.ReservedBytes.All, s.Hits, s.Misses)
		}
		get := must(t)
		get(a.Alloc(64<<20, 0))
		if s := a.Stats(); p != alloc.Direct && (s.Hits != 1 || s.HitRate() != 1) {
			t.Errorf("%s: %d hits after the warm-up", p, s.Hits)
		}
		if err := a.Check(); err != nil {
			t.Error(err)
		}
	}
}

// TestOtherStream keeps a block that a second stream uses from being handed out before the device is done with it.
func TestOtherStream(t *testing.T) {
	d := fake.New(fake.Config{})
	a, err := alloc.New(d, alloc.Options{EventCapacity: 100})
	if err != nil {
		t.Fatal(err)
	}
	get := must(t)
	p := get(a.Alloc(30<<20, 0))
	if err := a.RecordStream(p, 7); err != nil {
		t.Fatal(err)
	}
	d.Submit(7, 2)
	if err := a.Free(p); err != nil {
		t.Fatal(err)
	}
	s := a.Stats()
	if s.AllocatedBytes.All.Current != 0 || s.ActiveBytes.All.Current != 30<<20 || s.PendingFreeBlocks != 1 {
		t.Errorf("freed in use: %+v %+v", s.AllocatedBytes.All, s.ActiveBytes.All)
	}
	if q := get(a.Alloc(30<<20, 0)); q == p {
		t.Error("handed out while another stream uses it")
	}
	d.Run(7, 2)
	if q := get(a.Alloc(30<<20, 0)); q != p {
		t.Error("not handed out though the device is done")
	}
	var kinds []alloc.EventKind
	for _, e := range a.Snapshot().Events {
		if e.Addr == uint64(p) {
			kinds = append(kinds, e.Kind)
		}
	}
	want := []alloc.EventKind{alloc.EventSegmentAlloc, alloc.EventAlloc, alloc.EventFree, alloc.EventFreed,
		alloc.EventAlloc}
	if !slices.Equal(kinds, want) {
		t.Errorf("events %v, want %v", kinds, want)
	}
}

// TestEvents expects the newest events, each complete, and stacks that are interned once.
func TestEvents(t *testing.T) {
	now := int64(0)
	a := newBench(t, alloc.Options{EventCapacity: 1500, Clock: func() int64 { now++; return now }})
	stack := a.InternStack([]alloc.Frame{{File: "train.py", Line: 12, Func: "forward"}})
	if again := a.InternStack([]alloc.Frame{{File: "train.py", Line: 12, Func: "forward"}}); again != stack {
		t.Errorf("the same stack is %d and %d", stack, again)
	}
	for i := range int64(5000) {
		p, err := a.AllocRequest(alloc.Request{Size: i + 1, Stack: stack, Thread: 9})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.FreeRequest(p, alloc.Request{Thread: 8}); err != nil {
			t.Fatal(err)
		}
	}
	s := a.Snapshot()
	if len(s.Events) != 1500 || s.Dropped == 0 {
		t.Fatalf("%d events, %d dropped", len(s.Events), s.Dropped)
	}
	last := s.Events[len(s.Events)-3:]
	if last[0].Kind != alloc.EventAlloc || last[0].Size != 5000 || last[0].Thread != 9 || !last[0].Hit ||
		last[0].Span != 1 ||
		s.Stack(last[0].Stack)[0].Func != "forward" || last[1].Kind != alloc.EventFree || last[1].Thread != 8 ||
		last[1].Span != 1 ||
		last[2].Kind != alloc.EventFreed {
		t.Errorf("the last events are %+v", last)
	}
	if !slices.IsSortedFunc(s.Events, func(x, y alloc.Event) int { return int(x.Time - y.Time) }) {
		t.Error("events are not in order")
	}
}

// TestHitsAreTimed: hits have a measured duration from the first one on, and with debug on each its own.
func TestHitsAreTimed(t *testing.T) {
	get := must(t)
	for _, debug := range []bool{false, true} {
		now, tick := int64(0), int64(1)
		clock := func() int64 { now += tick; return now }
		a := newBench(t, alloc.Options{EventCapacity: 100, Debug: debug, Clock: clock})
		for i := range 6 {
			tick = int64(1 + i)
			_ = a.Free(get(a.Alloc(1000, 0)))
		}
		var spans []int64
		for _, e := range a.Snapshot().Events {
			if e.Kind == alloc.EventAlloc && e.Hit {
				spans = append(spans, e.Span)
			}
		}
		want := []int64{2, 2, 2, 2, 2}
		if debug {
			want = []int64{2, 3, 4, 5, 6}
		}
		if !slices.Equal(spans, want) {
			t.Errorf("debug %v: hits took %v, want %v", debug, spans, want)
		}
	}
}

// TestPoolBySize: PyTorch decides by the rounded size, which is small up to 1 MiB; Genesis by the request, of which
// 1 MiB is large.
func TestPoolBySize(t *testing.T) {
	for _, fromMiB := range []bool{false, true} {
		for size, large := range map[int64]bool{
			1<<20 - 512: false, 1<<20 - 511: false, 1<<20 - 1: false, 1 << 20: fromMiB, 1<<20 + 1: true,
		} {
			for _, policy := range []alloc.Policy{alloc.Torch, alloc.Packed, alloc.VMM} {
				a := newBench(t, alloc.Options{LargeFromMiB: fromMiB, Policy: policy})
				p := must(t)(a.Alloc(size, 0))
				s := a.Stats()
				if got := s.AllocatedBytes.Large.Current > 0; got != large {
					t.Errorf("%s, from 1 MiB %v: %d bytes are large: %v", policy, fromMiB, size, got)
				}
				if policy != alloc.VMM && !large && s.ReservedBytes.All.Current != 2<<20 {
					t.Errorf("%s: %d bytes reserved %d", policy, size, s.ReservedBytes.All.Current)
				}
				_ = a.Free(p)
				if again := must(t)(a.Alloc(size, 0)); again != p {
					t.Errorf("%d bytes are not reused", size)
				}
			}
		}
	}
}

// TestSettingsAct checks the effect of each setting on a small history.
func TestSettingsAct(t *testing.T) {
	get := must(t)
	a := newBench(t, alloc.Options{MaxCached: 50 << 20})
	p, q := get(a.Alloc(40<<20, 0)), get(a.Alloc(40<<20, 0))
	_ = a.Free(p)
	_ = a.Free(q)
	if s := a.Stats(); s.CachedBytes.All.Current != 40<<20 {
		t.Errorf("%d bytes are cached, at most 50 MiB may be", s.CachedBytes.All.Current)
	}
	a = newBench(t, alloc.Options{FragmentationThreshold: 0.5})
	p = get(a.Alloc(40<<20, 0))
	_ = a.Free(p)
	get(a.Alloc(60<<20, 0))
	if s := a.Stats(); s.ReservedBytes.All.Current != 60<<20 {
		t.Errorf("%d bytes are reserved", s.ReservedBytes.All.Current)
	}
	a = newBench(t, alloc.Options{GCThreshold: 0.5, MemoryFraction: 200. / (1 << 20)}) // of a TiB: 200 MiB
	p = get(a.Alloc(90<<20, 0))
	_ = a.Free(p)
	get(a.Alloc(20<<20, 1))
	get(a.Alloc(20<<20, 1))
	if s := a.Stats(); s.ReservedBytes.All.Current != 40<<20 || s.Retries != 0 {
		t.Errorf("%d bytes are reserved, after %d retries", s.ReservedBytes.All.Current, s.Retries)
	}
	if err := a.SetMemoryFraction(0.00001); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Alloc(20<<20, 1); !errors.Is(err, alloc.ErrOutOfMemory) {
		t.Errorf("beyond the cap: %v", err)
	}
	var o alloc.Options
	_ = o.Set("roundup_power2_divisions:4")
	a = newBench(t, o)
	get(a.Alloc(1200<<10, 0))
	if s := a.Stats(); s.AllocatedBytes.All.Current != 1280<<10 {
		t.Errorf("1200 KiB became %d bytes with 4 divisions, not 1280 KiB", s.AllocatedBytes.All.Current)
	}
}

// TestViews checks the keys of both views, and that a name has one meaning in each.
func TestViews(t *testing.T) {
	a := newBench(t, alloc.Options{})
	get := must(t)
	get(a.Alloc(1000, 0))
	s := a.Stats()
	g, torch := s.Genesis(), s.Torch()
	if g.ActiveBytes != 1000 || g.AllocatedBytes != 1024 || g.ReservedBytes != 2<<20 || g.NumCacheMisses != 1 ||
		g.CachedBytes != 2<<20-1024 || g.PeakAllocated != 1024 || g.InactiveSplitBytes != 2<<20-1024 {
		t.Errorf("Genesis's view is %+v", g)
	}
	if torch["active_bytes.all.current"] != 1024 || torch["requested_bytes.small_pool.peak"] != 1000 ||
		torch["max_split_size"] != -1 ||
		torch["allocation.all.allocated"] != 1 || torch["segment.small_pool.current"] != 1 {
		t.Errorf("PyTorch's view is %v", torch)
	}
	if n := len(torch); n != 6+9*12+8 {
		t.Errorf("PyTorch's view has %d keys", n)
	}
	for _, want := range []string{"asked for", "reserved", "hits", "2 MiB"} {
		if !strings.Contains(a.MemorySummary(), want) {
			t.Errorf("the summary does not say %q:\n%s", want, a.MemorySummary())
		}
	}
	for _, line := range strings.Split(a.MemorySummary(), "\n")[1:10] {
		if len(line) != 77 {
			t.Errorf("a line of the table has %d characters: %q", len(line), line)
		}
	}
}

func ExampleAllocator() {
	a, err := alloc.New(fake.New(fake.Config{Capacity: 1 << 30}), alloc.Options{})
	if err != nil {
		panic(err)
	}
	p, _ := a.Alloc(100<<20, 0)
	_ = a.Free(p)
	_, _ = a.Alloc(60<<20, 0)
	s := a.Stats()
	fmt.Println("reserved", s.ReservedBytes.All.Current>>20, "MiB, hit rate", s.HitRate())
	_, err = a.Alloc(2<<30, 0)
	fmt.Println(errors.Is(err, alloc.ErrOutOfMemory))
	// Output:
	// reserved 100 MiB, hit rate 0.5
	// true
}

// After Close every pointer is unknown, and nothing is handed out.
func TestAfterClose(t *testing.T) {
	for _, streams := range []alloc.Stream{1, 2} {
		a := newBench(t, alloc.Options{})
		var live []alloc.Ptr
		for s := range streams {
			p, err := a.Alloc(1<<20, s)
			if err != nil {
				t.Fatal(err)
			}
			live = append(live, p)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		for _, p := range live {
			if err := a.Free(p); !errors.Is(err, alloc.ErrUnknownPointer) {
				t.Errorf("%d streams: free after close: %v", streams, err)
			}
		}
		if _, err := a.Alloc(1, 0); !errors.Is(err, alloc.ErrClosed) {
			t.Errorf("alloc after close: %v", err)
		}
	}
}
