package check_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/check"
)

// The name of a file forges no line and sends no control character, in both forms that people read in a log, and a file
// is mended whatever its name is.
func TestNamesOfFiles(t *testing.T) {
	dir := t.TempDir()
	evil := filepath.Join(dir, "x\nforged\x1b[2J\xff.py")
	text := "import torch\ntotal = 0\nfor x in loader:\n    loss = model(x)\n    loss.backward()\n    total += loss\n"
	if err := os.WriteFile(evil, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, more := range []string{"--format=text", "--format=github", "--fix"} {
		var out, errs bytes.Buffer
		app.Main([]app.Family{check.Commands}, []string{"check", more, dir}, strings.NewReader(""), &out, &errs)
		said := out.String()
		raw := strings.ContainsRune(said, 0x1b) || !utf8.ValidString(said)
		if said == "" || raw || strings.Contains(said, "\nforged") {
			t.Errorf("%s: %q, %s", more, said, errs.String())
		}
	}
	if after, err := os.ReadFile(evil); err != nil || string(after) == text {
		t.Errorf("not mended: %v", err)
	}
}
