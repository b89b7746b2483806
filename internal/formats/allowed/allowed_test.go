package allowed

import (
	"slices"
	"testing"
)

// TestRead: groups and names, and what is none of them.
func TestRead(t *testing.T) {
	l, err := read("# a comment\nallow table: reads nothing\n  range Unnest\n\nrefuse table: reads files\n  glob\n")
	if err != nil || !l[From]["unnest"].Allowed || l[From]["glob"] != (Decision{false, "reads files"}) {
		t.Errorf("%v, %v", l, err)
	}
	for _, bad := range []string{"allow table\n  x", "perhaps table: so\n  x", "  x", "allow view: so\n  x x"} {
		if _, err := read(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

// TestCalls: names that may be called, and none that may not, nor operators.
func TestCalls(t *testing.T) {
	names := Calls()
	if !slices.IsSorted(names) || len(names) < 300 {
		t.Errorf("%d names", len(names))
	}
	for name, want := range map[string]bool{"sum": true, "range": true, "date_trunc": true, "histogram": true,
		"read_csv": false, "read_parquet": false, "glob": false, "getenv": false, "query": false, "+": false} {
		if slices.Contains(names, name) != want {
			t.Errorf("%s is completed: %t", name, !want)
		}
	}
}
