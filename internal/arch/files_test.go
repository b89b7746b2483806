package arch

import (
	"bytes"
	"go/format"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestFormatted(t *testing.T) {
	for _, f := range goFiles(t) {
		want, err := format.Source(f.src)
		if err != nil {
			t.Errorf("%s: %v", f.path, err)
		} else if !bytes.Equal(want, f.src) {
			t.Errorf("%s: not formatted: run gofmt -w", f.path)
		}
	}
}

// TestEmbeddedPython holds that what //go:embed takes is source: "all:" takes __pycache__ along, and the agent's
// content hash, which is its version, would then depend on who has run Python in the checkout.
func TestEmbeddedPython(t *testing.T) {
	err := filepath.WalkDir(filepath.Join(root, "python"), func(name string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "__pycache__" || path.Ext(d.Name()) == ".pyc" {
			t.Errorf("%s would be embedded: remove it (set PYTHONDONTWRITEBYTECODE=1 when running Python there)", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// place finds what names one machine or one supplier: the repository must mean the same everywhere.
var place = regexp.MustCompile(`(^|[\s"'=:(,\[` + "`" + `])/(root|work|home|Users)/[A-Za-z0-9._-]` +
	`|files\.pythonhosted\.org|pypi\.(org|python)|proxy\.golang\.org|sum\.golang\.org|registry\.npmjs|deb\.debian\.org|download\.pytorch\.org`)

func TestNoPlaces(t *testing.T) {
	for _, rel := range repoFiles(t) {
		switch {
		case strings.HasPrefix(rel, "testdata/seeds/"): // other people's documents, verbatim
		case rel == "internal/arch/files_test.go", rel == "go.sum", rel == "THIRD_PARTY_LICENSES":
		default:
			src := readFile(t, rel)
			if bytes.IndexByte(src, 0) >= 0 { // binary: a stored ring or database
				continue
			}
			for i, line := range bytes.Split(src, []byte("\n")) {
				if found := place.Find(line); found != nil {
					t.Errorf("%s:%d: names a place: %q", rel, i+1, found)
				}
			}
		}
	}
}

// TestGenerated runs the generator and compares. The generator's own sources are read here, so that a change in them
// makes go test run this again.
func TestGenerated(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasPrefix(f.dir, "internal/formats/wire") {
			_ = f.src
		}
	}
	dir := t.TempDir()
	args := []string{"run", "./internal/formats/wire/gen"}
	current := map[string]string{
		"-py": "python/memgauge/_agent/record/_spec.py",
		"-go": "internal/formats/wire/codec_gen.go",
		"-md": "docs/formats/ring-fields.md",
	}
	for flag, rel := range current {
		args = append(args, flag, filepath.Join(dir, path.Base(rel)))
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	for _, rel := range current {
		want, err := os.ReadFile(filepath.Join(dir, path.Base(rel)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(want, readFile(t, rel)) {
			t.Errorf("%s is not what internal/formats/wire/gen writes: run make generate", rel)
		}
	}
}
