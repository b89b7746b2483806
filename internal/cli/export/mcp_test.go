package export

import (
	"testing"

	"github.com/memgauge/memgauge/internal/api"
	"github.com/memgauge/memgauge/internal/ask"
	"github.com/memgauge/memgauge/internal/cli/app"
	"github.com/memgauge/memgauge/test/rights"
)

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
