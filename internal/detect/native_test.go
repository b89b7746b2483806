package detect

import "testing"

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
