package detect

import (
	"math"
	"testing"
)

// part keeps every nth reading of a series, until a step.
func (s Series) part(n int, until float64) (out Series) {
	for i, x := range s.Steps {
		if i%n == 0 && x <= until {
			out.Steps, out.Bytes = append(out.Steps, x), append(out.Bytes, s.Bytes[i])
		}
	}
	return out
}

// TestNoReadingIsNotNoGrowth: what was not read since a growth began says nothing against it.
func TestNoReadingIsNotNoGrowth(t *testing.T) {
	late := growing(1000, 0)
	for i := range late.Bytes {
		late.Bytes[i] += 1e6 * max(0, float64(i-400))
	}
	flat := growing(1000, 0)
	sparse, none := flat.part(300, 1000), Series{flat.Steps, make([]float64, len(flat.Steps))}
	for name, c := range map[string]struct {
		p    Process
		want Verdict
	}{
		"heap read until it began": {Process{Heap: flat.part(3, 400), Anon: late}, Leak},
		"heap read twice since":    {Process{Heap: flat.part(200, 800), Anon: late}, Leak},
		"heap read throughout":     {Process{Heap: flat.part(20, 780), Anon: late}, Healthy},
		"private, no witness read": {Process{Heap: flat, Anon: late, Private: late}, Leak},
		"private, witnesses flat":  {Process{Private: late, Blocks: flat, Space: flat}, Healthy},
		"private, with the space":  {Process{Heap: flat, Anon: late, Private: late, Blocks: flat, Space: late}, Leak},
		"private, the space flat": {Process{Heap: flat, Anon: late, Private: late, Blocks: flat, Space: flat},
			Undecided},
		"another allocator":         {Process{Heap: none, Anon: late, Private: late, Blocks: flat, Space: flat}, Leak},
		"private, few blocks known": {Process{Heap: flat, Anon: late, Private: late, Blocks: sparse}, Leak},
	} {
		c.p.PID, c.p.Rank, c.p.Pace = 7, -1, 0.1
		if name == "private, witnesses flat" { // malloc keeps 800 MB free
			c.p.Anon = Series{late.Steps, make([]float64, len(late.Steps))}
			for i := range late.Bytes {
				c.p.Anon.Bytes[i] = late.Bytes[i] + 8e8
			}
			c.p.Heap = Series{flat.Steps, make([]float64, len(flat.Bytes))}
		}
		r := Run(Input{Steps: 1000, Processes: []Process{c.p}, Host: room, Over: true})
		if r.Verdict != c.want {
			for _, f := range r.Findings {
				t.Errorf("%s: %s, want %s: %s %v", name, r.Verdict, c.want, f.Memory, f.Growth)
			}
		}
	}
}

// TestPythonsBlocksTestify: where private memory grows by arenas, now and then, and Python's blocks are a line, what
// they are in leaks; where it stays, it does not.
func TestPythonsBlocksTestify(t *testing.T) {
	flat, blocks, arenas := growing(1000, 0), growing(1000, 160), growing(1000, 0)
	for i := range arenas.Bytes { // the later, the longer an arena lasts
		arenas.Bytes[i] += float64(material) * math.Floor(8*math.Sqrt(float64(i)/1000))
	}
	for want, private := range map[Verdict]Series{Leak: arenas, Healthy: flat} {
		p := Process{PID: 7, Rank: -1, Pace: 0.1, Heap: flat, Anon: private, Private: private, Blocks: blocks}
		if r := Run(Input{Steps: 1000, Processes: []Process{p}, Host: room, Over: true}); r.Verdict != want {
			t.Errorf("%s, want %s: %v", r.Verdict, want, r.Findings)
		}
	}
}

// TestCopyOnWrite: a worker's pages that it shared with its parent become its own, and can't be more than all it has.
func TestCopyOnWrite(t *testing.T) {
	trainer := Process{PID: 7, Rank: -1, Pace: 0.1, Heap: growing(1000, 0), Anon: growing(1000, 0)}
	worker := Process{PID: 8, Rank: -1, Pace: 0.1, Worker: true, Anon: growing(1000, 0), Unshared: growing(1000, 2e5)}
	for i := range worker.Anon.Bytes {
		worker.Anon.Bytes[i] += 4e8
	}
	r := Run(Input{Steps: 1000, Processes: []Process{trainer, worker}, Host: room})
	if f := r.Findings[0]; r.Verdict != Undecided || f.Why != Copies || f.Needs < 900 || f.Needs > 1100 {
		t.Errorf("%s: %v, needs %v", r.Verdict, f.Growth, f.Needs)
	}
}
