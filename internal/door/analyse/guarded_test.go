package analyse

import (
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/formats/model"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/detect"
)

// TestHeldDownByTheGuard: a run that is flat because a guard clears what leaks is not healthy.
func TestHeldDownByTheGuard(t *testing.T) {
	acts := &model.Batch{}
	act := func(i int, code, text string) {
		acts.Events = append(acts.Events, model.Event{Time: stepTime(i), PID: 7, Rank: -1, Name: "guard", Code: code,
			Text: text, A: model.Null, B: model.Null})
	}
	act(10, wire.EventHolder, "System.validation_step_outputs")
	for i := range 35 {
		act(10+10*i, wire.EventHelped, "near the limit: clear System.validation_step_outputs")
	}
	r := judged(t, Options{}, cudaRun(600, 0, 0), acts)
	if line := r.Line(); r.Verdict != detect.Leak || !strings.Contains(line, "LEAKS, held down by the guard") ||
		!strings.Contains(line, "held by System.validation_step_outputs") {
		t.Errorf("%s: %q", r.Verdict, line)
	}
}
