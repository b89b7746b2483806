package tui

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/questions"
	rows "github.com/memgauge/memgauge/internal/formats/model"
)

// The process that is drawn first is the one that leaks, from the judgement on that says so; before it, and in a
// healthy job, the one with the most steps.
func TestTheLeakingProcessIsForemost(t *testing.T) {
	r := newRecording(api.About{})
	b := batch{}
	for pid := int64(10); pid < 14; pid++ { // ranks 0 to 3, the first a step ahead
		for at := int64(1); at <= 9; at++ {
			b.rows = append(b.rows, questions.Row{K: "s", ID: pid, T: at, A: at*10 + 10 - pid, B: 5, C: 5})
		}
	}
	r.take(b)
	if p := r.foremost(9); p == nil || p.pid != 10 {
		t.Errorf("without a judgement: %+v", p)
	}
	r.judged = []judgement{
		{at: 3, number: 1, findings: []rows.Finding{{Verdict: "healthy", PID: 13}}},
		{at: 5, number: 2, findings: []rows.Finding{{Verdict: "leak", PID: 99}, {Verdict: "leak", PID: 12}}},
	}
	for at, want := range map[int64]int{2: 10, 4: 10, 5: 12, 9: 12} {
		if p := r.foremost(at); p == nil || p.pid != want {
			t.Errorf("at %d: %+v, not process %d", at, p, want)
		}
	}
}

// What stands beside the series at the end of a session that is over is what its largest trainer held last, not what
// was left when it had gone; a live session, and a moment that was chosen, are shown as they are.
func TestHeldAtTheEnd(t *testing.T) {
	r := newRecording(api.About{Live: true})
	r.first, r.last = 1, 90
	add := func(pid int, rss int64, steps bool, until int64) {
		p := &process{pid: pid, memory: newTrack(func(a, _ memory) memory { return a }),
			steps: newTrack(func(a, _ floor) floor { return a })}
		for at := int64(1); at <= until; at++ {
			p.memory.add(at, memory{rss: rss, at: at})
		}
		if steps {
			p.steps.add(1, floor{step: 1})
		}
		r.procs[pid] = p
	}
	add(5, 900, false, 85) // a launcher
	add(6, 100, true, 80)
	add(7, 400, true, 70)
	x := timeline{follow: true}
	if at := x.held(r); at != 90 {
		t.Errorf("live: %d", at)
	}
	r.take(batch{}) // of a session that is over
	if at := x.held(r); at != 70 {
		t.Errorf("at the end: %d", at)
	}
	x = timeline{cursor: 82}
	if at := x.held(r); at != 82 {
		t.Errorf("chosen: %d", at)
	}
}
