package lake

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQuestionsLeaveTheLakeAlone: whatever is asked of a lake, no file or directory comes, goes or changes in it, and
// what lies beside its Parquet files is not read. Its writer goes on to merge.
func TestQuestionsLeaveTheLakeAlone(t *testing.T) {
	dir := t.TempDir()
	w := writer(t, soon(dir))
	for k := range 3 {
		b := batch(t, 0, k)
		if err := w.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	secret := filepath.Join(dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("xyzzy\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	files := func() (list []string) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			info, failed := d.Info()
			if err == nil && failed == nil {
				list = append(list, path+info.ModTime().String())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	before := strings.Join(files(), "\n")
	parquet := ""
	for _, f := range files() {
		if path, _, ok := strings.Cut(f, ".parquet"); ok {
			parquet = path + ".parquet"
		}
	}
	for _, text := range []string{"EXPORT DATABASE '" + dir + "/x'", "COPY (SELECT 1) TO '" + dir + "/x.csv'",
		"COPY (SELECT 1) TO '" + parquet + "'", "ATTACH '" + dir + "/x.db'", secret, parquet} {
		for _, form := range []string{"SELECT json_serialize_plan($)", "SELECT main.json_serialize_plan($)",
			"FROM json_each(json_serialize_plan($))", "EXPLAIN ANALYZE SELECT json_serialize_plan($)", "FROM query($)",
			"FROM read_text($)", "FROM read_csv($)", "FROM read_parquet($)", "FROM $", "FROM sql_auto_complete($)",
			"FROM histogram($, a)", "FROM glob($)"} {
			sql := strings.ReplaceAll(form, "$", "'"+strings.ReplaceAll(text, "'", "''")+"'")
			out, err := query(t.Context(), Choice{Location: dir}, sql)
			if err == nil || strings.Contains(out, "xyzzy") {
				t.Errorf("%s: %s", sql, out)
			}
		}
	}
	if after := strings.Join(files(), "\n"); after != before {
		t.Errorf("the lake had\n%s\nand has\n%s", before, after)
	}
	if r, err := w.Maintain(t.Context()); err != nil || r.Merged == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := csv(t, Choice{Location: dir}, "SELECT count(*) FROM python.steps"); got != "150" {
		t.Errorf("after the merge: %s rows", got)
	}
}
