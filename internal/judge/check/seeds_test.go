package check

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var snippet = regexp.MustCompile("(?s)```python\n(.*?)```")

// TestSeedSnippets finds the leaks of the seeds' documents in their own code, as it stands there: pieces without a
// class or an import.
func TestSeedSnippets(t *testing.T) {
	want := map[string]string{"self.validation_step_outputs.append(": "MG102", "all_losses.append(loss)": "MG103",
		"plt.savefig(plot_path": "MG301"}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "seeds", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range snippet.FindAllStringSubmatch(string(data), -1) {
			for mark, rule := range want {
				if !strings.Contains(m[1], mark) || strings.Contains(m[1], "if len(") { // the last is the repair
					continue
				}
				delete(want, mark)
				if ids := found(t, m[1]); !slices.Contains(ids, rule) {
					t.Errorf("%s: %v, want %s in\n%s", name, ids, rule, m[1])
				}
			}
		}
	}
	if len(want) > 0 {
		t.Errorf("no document has %v", want)
	}
}
