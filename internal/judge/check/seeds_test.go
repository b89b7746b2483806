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

// TestPieceWithoutItsHook: a list that is named after a step is emptied where that step's outputs are used up.
func TestPieceWithoutItsHook(t *testing.T) {
	for phase, end := range map[string]string{"validation": "on_validation_epoch_end", "test": "on_test_epoch_end",
		"training": "on_train_epoch_end"} {
		piece := "self." + phase + "_step_outputs.append({\"loss\": loss.detach().cpu()})\n"
		fs, err := File("example.py", []byte(piece), Selection{})
		if err != nil || len(fs) != 1 || fs[0].Rule.ID != "MG102" || !strings.HasSuffix(fs[0].Hint, " of "+end) {
			t.Errorf("%v, %+v in\n%s", err, fs, piece)
		}
	}
}
