package wheel

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/memgauge/memgauge/test/env"
)

// TestSeedsSnippets runs the Python of the seeds' documents with the wheel beside PyTorch, observed and not. Where
// there is no GPU, examples of CUDA memory say that they need one, and which devices there are.
func TestSeedsSnippets(t *testing.T) {
	wheel(t)
	at := installFor(t, env.Torch(t))
	script, _ := filepath.Abs("testdata/snippets.py")
	seeds := filepath.Join(env.Checkout(), "testdata", "seeds")
	var snippets []struct {
		Name string
		GPU  bool
	}
	listed := at.run(t, at.python, script, seeds)
	if err := json.Unmarshal([]byte(listed), &snippets); err != nil || len(snippets) != 18 {
		t.Fatalf("%d snippets, %v", len(snippets), err)
	}
	gpu := exec.CommandContext(t.Context(), "nvidia-smi", "-L").Run() == nil
	for i, s := range snippets {
		for _, observed := range []bool{false, true} {
			args := []string{at.python, script, seeds, fmt.Sprint(i)}
			if observed {
				args = append([]string{"memgauge", "run", "--quiet", "--"}, args...)
			}
			cmd := exec.CommandContext(t.Context(), "env", args...)
			cmd.Dir, cmd.Env = t.TempDir(), at.env
			out, err := cmd.CombinedOutput()
			needsGPU := s.GPU && !gpu
			told := strings.Contains(string(out), `needs a GPU: without one there are memgauge.device("cpu")`)
			if needsGPU != told || needsGPU == (err == nil && strings.HasSuffix(string(out), "done\n")) {
				t.Errorf("%s, snippet %d, observed %v: %v\n%s", s.Name, i, observed, err, out)
			}
		}
	}
}
