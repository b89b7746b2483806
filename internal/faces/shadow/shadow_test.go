package shadow

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

func TestMain(m *testing.M) { env.Leftovers(m) }

// TestTree: Python files are copies, one with another text; all else is a link. What is written to the copy and its
// removal leave the directory alone.
func TestTree(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := put("train.py", "old")
	put("pkg/model.py", "model")
	put("pkg/weights.bin", "weights")
	put("data/rows.csv", "rows")
	put("env/pyvenv.cfg", "")
	put("env/lib/x.py", "library")
	put("pkg/__pycache__/model.pyc", "stale")
	tree, err := Make(root, map[string][]byte{script: []byte("new")})
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Remove()
	for name, want := range map[string]string{"train.py": "new", "pkg/model.py": "model", "pkg/weights.bin": "weights",
		"data/rows.csv": "rows", "env/lib/x.py": "library"} {
		if got, err := os.ReadFile(tree.At(filepath.Join(root, name))); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
	for name, link := range map[string]bool{"train.py": false, "pkg": false, "pkg/weights.bin": true, "data": true,
		"env": true} {
		info, err := os.Lstat(tree.At(filepath.Join(root, name)))
		if err != nil || (info.Mode().Type() == os.ModeSymlink) != link {
			t.Errorf("%s: %v, %v; a link: %v", name, info, err, link)
		}
	}
	if _, err := os.Lstat(filepath.Join(tree.Path(), "pkg/__pycache__")); err == nil {
		t.Error("bytecode of other text was taken over")
	}
	if got := tree.Command([]string{"python", script, "--out=" + root + "/x",
		"/etc/hosts"}); got[1] != tree.Path()+"/train.py" ||
		got[2] != "--out="+tree.Path()+"/x" || got[3] != "/etc/hosts" {
		t.Errorf("%q", got)
	}
	if err := os.WriteFile(filepath.Join(tree.Path(), "log.txt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	tree.Remove()
	if got, err := os.ReadFile(script); err != nil || string(got) != "old" {
		t.Errorf("the script is %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(root, "data/rows.csv")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(root, "log.txt")); err == nil {
		t.Error("what the program wrote stands in the directory")
	}
	if _, err := os.Stat(tree.Path()); err == nil {
		t.Error("the copy is left")
	}
}
