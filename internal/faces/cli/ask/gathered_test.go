package ask

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/internal/fleet/fanout"
)

// TestColumnsOfStrangers: one node's rows with a name each, or a million names in one, take no memory for those of
// others, which are shown.
func TestColumnsOfStrangers(t *testing.T) {
	j, honest := &joined{}, fanout.Session{Job: "j", Node: "n1"}
	if err := j.add(honest, strings.NewReader(`{"step":1,"tags":["a"]}`+"\n"+`{"step":2,"tags":null}`)); err != nil {
		t.Fatal(err)
	}
	var ragged, wide strings.Builder
	for i := range 100 {
		fmt.Fprintf(&ragged, `{"x%d":1}`, i)
		fmt.Fprintf(&wide, `"x%d":1,`, i)
	}
	for _, text := range []string{ragged.String(), "[1,2", "{", "1 2"} {
		if err := j.add(fanout.Session{Node: "n2"}, strings.NewReader(text)); err == nil {
			t.Errorf("%.20q was read", text)
		}
	}
	if err := j.add(fanout.Session{Node: "n3"}, strings.NewReader("{"+wide.String()+`"y":1}`)); err != nil {
		t.Fatal(err)
	}
	if out := j.fit(100); !slices.Equal(out, []string{"n3"}) {
		t.Errorf("%v are left out", out)
	}
	l := j.listing()
	if got := fmt.Sprint(l.Rows); len(l.Head) != 4 || got != `[[j n1 1 ["a"]] [j n1 2 <nil>]]` {
		t.Errorf("%d columns: %s", len(l.Head), got)
	}
}
