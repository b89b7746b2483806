package detect

import (
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
)

// TestNativeLine: the functions that a line calls count together, and the one that grew most is named.
func TestNativeLine(t *testing.T) {
	grows := func(site, called string, rate float64) NativeSeries {
		s := NativeSeries{Site: site, Called: called}
		for i := range 30 {
			s.Held.Steps = append(s.Held.Steps, float64(i))
			s.Held.Bytes = append(s.Held.Bytes, 1e6+rate*float64(i))
		}
		return s
	}
	p := Process{Native: []NativeSeries{grows("b.py:2", "one", 400), grows("a.py:1", "two", 280),
		grows("a.py:1", "three", 320), grows("c.py:3", "up", 900), grows("c.py:3", "down", -900)}}
	f := Finding{Memory: Anon}
	f.Rate = 1000
	best, rate := p.fastestNative(&f)
	if best == nil || best.Site != "a.py:1" || best.Called != "three" || rate != 600 {
		t.Errorf("%+v, %v a step", best, rate)
	}
	f.Rate = 1300
	if best, _ := p.fastestNative(&f); best != nil {
		t.Errorf("%s explains less than half of the growth", best.Site)
	}
}

// TestNoPython: growth in a thread that runs no Python has no line, and nothing else's is named for it.
func TestNoPython(t *testing.T) {
	p := Process{Objects: []model.ObjectGroup{{Census: 1, Evidence: "native", Type: "call", Holder: "load()",
		Site: "other.py:7", Detail: "cv2.imread"}}}
	s := NativeSeries{Called: "grow (libworker.so)"}
	for i := range 30 {
		s.Held.Steps = append(s.Held.Steps, float64(i))
		s.Held.Bytes = append(s.Held.Bytes, 1e6+600*float64(i))
	}
	p.Native = []NativeSeries{s}
	p.Unsampled = "samples began late"
	f := Finding{Memory: Heap}
	f.Rate = 1000
	p.attribute(&f, nil)
	p.nativeSite(&f)
	if f.Site != "" || f.Holder != "native code: grow (libworker.so)" || f.Class != NativeHeap ||
		!strings.Contains(strings.Join(f.Evidence, "; "), "runs no Python, so no line") ||
		!slices.Contains(f.Evidence, p.Unsampled) {
		t.Errorf("%q %q %s %q", f.Site, f.Holder, f.Class, f.Evidence)
	}
}
