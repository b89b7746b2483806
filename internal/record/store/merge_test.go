package store

import (
	"path/filepath"
	"testing"
)

// TestMergeOfManyFiles: what a merge takes of memory does not grow with the number of its files.
func TestMergeOfManyFiles(t *testing.T) {
	dir := t.TempDir()
	one, all := filepath.Join(dir, "one.parquet"), filepath.Join(dir, "all.parquet")
	const rows = "SELECT range::INTEGER AS rank, 'text ' || range AS text FROM range(10)"
	err := WriteParquet(t.Context(), rows, one, 10, dir)
	if err != nil {
		t.Fatal(err)
	}
	m := Merge{To: all, Columns: []FileColumn{{Name: "rank", Type: "BIGINT"}, {Name: "text", Type: "VARCHAR"},
		{Name: "more", Type: "DOUBLE"}}, Order: []string{"rank"}, RowGroup: 1000, TempDir: dir, MemoryLimit: 32 << 20}
	for range 300 {
		m.From = append(m.From, MergeSource{Path: one})
	}
	m.From = append(m.From, MergeSource{Path: one, Where: "rank = 7"})
	if err := MergeParquet(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	var got [][]any
	err = withFiles(t.Context(), dir, func(c *conn) error {
		return c.all("SELECT count(*), count(more), count(*) FILTER (rank = 7), list(rank) = list_sort(list(rank)) "+
			"FROM "+plainFile(all), func(v []any) { got = append(got, v) })
	})
	if err != nil || len(got) != 1 || got[0][0] != int64(3001) || got[0][1] != int64(0) || got[0][2] != int64(301) ||
		got[0][3] != true {
		t.Errorf("%v, %v", got, err)
	}
}
