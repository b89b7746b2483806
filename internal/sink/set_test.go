package sink

import (
	"os"
	"path/filepath"
	"testing"
)

// TestDiscardedSet: nothing of a set that was not committed stays, neither files nor the directories made for them.
// What was there before does.
func TestDiscardedSet(t *testing.T) {
	for _, committed := range []bool{false, true} {
		there := t.TempDir()
		made := filepath.Join(there, "a", "b")
		var s Set
		if err := s.MakeDir(made); err != nil {
			t.Fatal(err)
		}
		out, err := CreateNamed(filepath.Join(made, "table.parquet"))
		if err != nil {
			t.Fatal(err)
		}
		s.Add(out)
		if committed {
			if err := s.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		s.Discard()
		left, err := os.ReadDir(there)
		if err != nil || (len(left) == 1) != committed {
			t.Errorf("committed %t: %v %v", committed, left, err)
		}
		if _, err := os.Stat(filepath.Join(made, "table.parquet")); (err == nil) != committed {
			t.Errorf("committed %t: %v", committed, err)
		}
	}
}
