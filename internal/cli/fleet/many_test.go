package fleet

import "testing"

// TestAsksOne: a command whose answers can't be put together is asked of the one session that there is, and refused
// where there are several.
func TestAsksOne(t *testing.T) {
	for _, c := range []struct {
		args []string
		one  bool
	}{
		{[]string{"eval", "len(x)"}, true}, {[]string{"eval", "--all", "len(x)"}, false}, {[]string{"report"}, true},
		{[]string{"report", "--json"}, false}, {[]string{"snapshot"}, true}, {[]string{"leak"}, false},
		{[]string{"tables", "python.steps"}, false},
	} {
		if q := (&question{args: c.args}); q.asksOne() != c.one {
			t.Errorf("%q: %v", c.args, !c.one)
		}
	}
}
