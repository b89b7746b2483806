package observe

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/formats/wire"
	"github.com/memgauge/memgauge/internal/judge/guard"
)

// TestGuardIsReadByCodes: what the guard has done is told by codes. A text is for people: it may have any words, those
// of another event's too.
func TestGuardIsReadByCodes(t *testing.T) {
	const misleading = "rule: stopped with a checkpoint: , helped, : warn: is left out from now on"
	var sum Guarded
	sum.note(api.Event{Name: "guard", Text: misleading})
	if sum.Stopped != "" || sum.Actions+sum.Helped+len(sum.LeftOut) != 0 {
		t.Errorf("of an event without a code: %+v", sum)
	}
	for _, code := range []string{wire.EventHelped, wire.EventVain, wire.EventLeftOut, wire.EventStopped} {
		sum.note(api.Event{Name: "guard", Text: "of " + code, Code: code})
	}
	if sum.Actions != 2 || sum.Helped != 1 || len(sum.LeftOut) != 1 || sum.Stopped != "of stopped" {
		t.Errorf("%+v", sum)
	}
	g := &guarding{policy: &guard.Policy{}}
	for code, want := range map[string]bool{"": false, wire.EventWarned: true, wire.EventWebhook: true,
		wire.EventStopped: true, wire.EventHelped: false} {
		if g.tells(api.Event{Name: "guard", Text: misleading, Code: code}) != want {
			t.Errorf("code %q: told is not %v", code, want)
		}
	}
}
