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
		f, err := s.Folder(made)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Create("c/table.parquet"); err != nil {
			t.Fatal(err)
		}
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
		if _, err := os.Stat(filepath.Join(made, "c", "table.parquet")); (err == nil) != committed {
			t.Errorf("committed %t: %v", committed, err)
		}
	}
}
