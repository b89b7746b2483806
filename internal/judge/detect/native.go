package detect

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/memgauge/memgauge/internal/base/units"
)

// NativeSeries is what native code held over time on behalf of one line of the program, estimated from samples. A
// thread that runs no Python, such as one of Arrow's or OpenMP's, has no line.
type NativeSeries struct {
	Site, Called string // file:line, "" for none; function and module
	Held         Series
}

// place is what counts together: all that a line calls, or one function of threads without Python.
func (s NativeSeries) place() string {
	if s.Site == "" {
		return nativePrefix + s.Called
	}
	return s.Site
}

// where tells who called it.
func (s NativeSeries) where() string {
	if s.Site == "" {
		return "in a thread that runs no Python, so no line of the program is known,"
	}
	return "called at " + s.Site + ","
}

// nativePrefix begins the holder of memory whose line samples named.
const nativePrefix = "native code: "

const (
	nativeHalf  = 0.5 // share of the growth that a line must explain to be named
	nativeReads = 4   // moments that a rate needs
)

// fastestNative is the line whose native memory grew most since the finding's growth began, with the function that it
// grew in most, if native memory was sampled and that is half of the growth; nil if not. A line's functions count
// together: what it calls may come to malloc by several ways.
func (p Process) fastestNative(f *Finding) (best *NativeSeries, rate float64) {
	if f.Memory != Heap && f.Memory != Anon && f.Memory != Worker {
		return nil, 0
	}
	sums, called := map[string]float64{}, map[string]float64{}
	for _, s := range p.Native {
		r := s.rate(f)
		sums[s.place()] += r
		called[s.place()] = max(called[s.place()], r)
	}
	for i, s := range p.Native {
		if sums[s.place()] > rate && s.rate(f) == called[s.place()] {
			best, rate = &p.Native[i], sums[s.place()]
		}
	}
	if rate < nativeHalf*f.Rate {
		return nil, 0
	}
	return best, rate
}

// nativeSite gives a holder that Python knows the line that allocates what it holds: a census only sees who keeps it.
func (p Process) nativeSite(f *Finding) {
	if best, rate := p.fastestNative(f); best != nil && !strings.HasPrefix(f.Holder, nativePrefix) {
		f.Site = cmp.Or(best.Site, f.Site)
		f.Evidence = append(f.Evidence, fmt.Sprintf("samples of native memory: %s, %s holds %s more each %s",
			best.Called, best.where(), units.Bytes(math.Round(rate)), f.Unit()))
	}
}

// nativeLine names the line whose native memory grew as the finding's did.
func (p Process) nativeLine(f *Finding) bool {
	best, most := p.fastestNative(f)
	if best == nil {
		return false
	}
	pace := fmt.Sprintf("+%s per %s", units.Bytes(math.Round(most)), f.Unit())
	f.Class, f.Site, f.Holder, f.Held = NativeHeap, best.Site, nativePrefix+best.Called, pace
	if f.Worker {
		f.Class = WorkerGrowth
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("samples of native memory: %s, %s holds %s more each %s",
		best.Called, best.where(), units.Bytes(math.Round(most)), f.Unit()))
	if p.Unsampled != "" {
		f.Evidence = append(f.Evidence, p.Unsampled)
	}
	return true
}

// rate is the growth since the finding's began, in bytes a step: between the middles of the first and the last third.
func (s NativeSeries) rate(f *Finding) float64 {
	grown := s.Held.clean().from(f.Start)
	n := len(grown.Steps)
	if n < nativeReads {
		return 0
	}
	third := max(n/3, 1)
	rise := middle(grown.Bytes[n-third:]) - middle(grown.Bytes[:third])
	if width := middle(grown.Steps[n-third:]) - middle(grown.Steps[:third]); width > 0 {
		return rise / width
	}
	return 0
}

func middle(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// releases is what gives the memory of well-known modules back, by a part of the module's name.
var releases = []struct{ module, advice string }{
	{"_ctypes", "call free() on each block that malloc() gave, or the library's own release function"},
	{"cv2", "release() captures and writers, and drop the arrays that cv2 returned: each holds its pixels"},
	{"_imaging", "close images, or open them in a with block: Image.close() gives the pixels back"},
	{"_sqlite3", "close cursors and connections"},
	{"sqlite3", "close cursors and connections"},
	{"etree", "drop elements of trees that are done: one element keeps its whole document"},
	{"libarrow", "drop buffers and tables that are done; pyarrow.total_allocated_bytes() tells what they hold"},
	{"multiarray", "drop or reuse arrays: a view keeps the whole array that it was taken from"},
	{"pandas", "drop frames that are done: a slice keeps the frame that it was taken from"},
	{"tokenizers", "keep the ids of an Encoding and drop the Encoding itself"},
}

// freedBy is the advice for native memory: what frees it where that is known, and how to learn the line where that
// isn't.
func freedBy(f Finding) []string {
	called, sampled := strings.CutPrefix(f.Holder, nativePrefix)
	if !sampled {
		return []string{"memgauge attach --native PID samples malloc in it from now on and names the line, " +
			"run --native from its start (docs/native.md)"}
	}
	for _, r := range releases {
		if strings.Contains(called, r.module) {
			return []string{r.advice}
		}
	}
	return nil
}
