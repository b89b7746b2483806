package analyse

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// requests are rows of a server that answers so many requests a second, after what it did before it served.
func requests(n int, everyUS, rate int64) *model.Batch {
	b := cudaRun(3, 0, 0)
	b.Devices = nil
	for i := 4; i <= n; i++ {
		heap := 600*mib + rate*int64(i) + jitter(i)
		b.Steps = append(b.Steps, model.Step{Time: begin + int64(i)*everyUS, PID: 7, Rank: -1, World: -1,
			Step: int64(i), Steps: 1, Device: -1, Allocated: heap, MaxAllocated: heap, Reserved: heap,
			MaxReserved: heap,
			RSS:         heap, Anon: heap + 300*mib, MaxRSS: model.Null, HeapInUse: heap, HeapHeld: heap, PyBlocks: 1e6,
			GCFull: model.Null, Work: "request", Tokens: 310})
	}
	return b
}

// TestRequests: the rows of a server are judged by its requests, at the pace at which they come, and those of before do
// not count. So fast a growth of a training, of 4 s, would be a leak of so many steps.
func TestRequests(t *testing.T) {
	r := judged(t, Options{Over: true}, requests(2000, 2000, 64*kib))
	if f := r.Findings[0]; r.Verdict != detect.Undecided || f.Unit() != "request" || f.Since != 4 ||
		!strings.HasSuffix(r.Line(), " requests too early to tell") {
		t.Errorf("after 4 s: %s: %+v", r.Line(), f.Growth)
	}
	r = judged(t, Options{Over: true}, requests(2000, 100_000, 64*kib))
	f := finding(t, r, detect.Heap, "")
	if r.Verdict != detect.Leak || r.Unit() != "request" || f.PerStep() != "+64.0 KiB/request" ||
		f.Load != "10 requests/s of 310 tokens" {
		t.Errorf("after 200 s: %s, at %q", r.Line(), f.Load)
	}
}
