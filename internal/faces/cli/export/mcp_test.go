package export

import (
	"testing"

	"github.com/memgauge/memgauge/internal/door/api"
	"github.com/memgauge/memgauge/internal/door/ask"
	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/test/rights"
)

// TestToolsAskWhatWasFound: a server for a session on another machine answers about that one, and one that was started
// for no session in particular asks nothing but this machine.
func TestToolsAskWhatWasFound(t *testing.T) {
	far := ask.Far(api.About{ID: "far"}, -1, func() api.Session { return &rights.Session{} })
	sub, done, err := newTools(&app.App{Far: &far}, false).about(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if target, err := sub.Target(t.Context()); err != nil || target.About().ID != "far" {
		t.Errorf("%+v, %v", target, err)
	}
	sub, done, err = newTools(&app.App{}, false).about(t.Context(), "gpu-1:4222")
	if err != nil {
		t.Fatal(err)
	}
	done()
	if target, err := sub.Target(t.Context()); !app.IsUsage(err) {
		t.Errorf("%+v, %v", target, err)
	}
}

// TestRightsOfAnAssistant: the sessions that its tools open hold no right that --allow-eval has not given, whatever
// command line a tool may be talked into.
func TestRightsOfAnAssistant(t *testing.T) {
	for carrier, allow := range map[int]bool{rights.MCP: false, rights.MCPEval: true} {
		s := &rights.Session{}
		far := ask.Far(api.About{ID: "1"}, -1, func() api.Session { return s })
		tools := newTools(&app.App{}, allow)
		rights.Each(t, carrier, s, func(r api.Route) bool {
			sub, done, err := tools.about(t.Context(), "")
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			again := sub.Again() // as commands do that run others
			again.Far = &far
			door, err := again.Connect(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			target, err := again.Target(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return rights.Call(t.Context(), door, r) && rights.Call(t.Context(), target.Open(), r)
		})
	}
}
