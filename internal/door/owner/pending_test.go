package owner

import (
	"math"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// fill lets no file of this process grow, as a full disk would, until empty is called. The runtime ignores SIGXFSZ, so
// that a write says EFBIG.
func fill(t *testing.T) (empty func()) {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &limit); err != nil {
			t.Error(err)
		}
	}
}

// TestSamplesComeBack: what could not be stored is stored later, once.
func TestSamplesComeBack(t *testing.T) {
	o := open(t, ended(t))
	defer closeOwner(t, o)
	o.Add(sample(7))
	if err := o.StoreSamples(t.Context(), time.Hour); err != nil {
		t.Fatal(err)
	}
	empty := fill(t)
	err := o.StoreSamples(t.Context(), 0)
	empty()
	if err == nil {
		t.Fatal("samples were stored where no file could grow")
	}
	o.Add(sample(8))
	if _, err := o.DrainOlder(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if got := answer(t, o, "SELECT pid FROM process.memory ORDER BY pid"); got != "7\n8" {
		t.Errorf("samples of %q", got)
	}
	if cost := o.StoringCost(model.Overhead{Part: "sampler: host"}); cost.Part != "sampler: store" || cost.Count != 1 {
		t.Errorf("cost %+v: one transaction was stored", cost)
	}
}

// TestTooManyComeBack: samples beyond the bound are dropped and counted, events are kept.
func TestTooManyComeBack(t *testing.T) {
	var p pending
	p.add(&model.Batch{Samples: model.Samples{Memory: make([]model.ProcessMemory, 4*storeRows)},
		Events: []model.Event{{Name: "oom_kill"}}})
	p.back(p.take(time.Now(), 0))
	b := p.take(time.Now(), 0)
	if len(b.Samples.Memory) != 0 || len(b.Events) != 1 || len(b.Drops) != 1 || b.Drops[0].Records != 4*storeRows+1 {
		t.Errorf("%d samples, %d events, drops %+v", len(b.Samples.Memory), len(b.Events), b.Drops)
	}
	if p.take(time.Now(), 0) != nil {
		t.Error("it was taken, and is there")
	}
}

// TestSamplesWait: samples wait together, unless there are many.
func TestSamplesWait(t *testing.T) {
	var p pending
	p.add(sample(7))
	if p.take(time.Now(), time.Hour) != nil {
		t.Error("a sample did not wait")
	}
	p.add(&model.Batch{Samples: model.Samples{Memory: make([]model.ProcessMemory, storeRows)}})
	if b := p.take(time.Now(), math.MaxInt64); b == nil || b.Samples.Rows() != storeRows+1 {
		t.Error("as many as may be waited")
	}
}
