package check_test

import (
	"testing"

	"github.com/memgauge/memgauge/internal/faces/cli/app"
	"github.com/memgauge/memgauge/internal/faces/cli/check"
	"github.com/memgauge/memgauge/test/golden"
)

const training = `import torch

losses = []
for batch in loader:
    loss = model(batch)
    losses.append(loss)
    loss.backward()
    optimizer.step()
`

func TestGolden(t *testing.T) {
	golden.Run(t, golden.Table{Families: []app.Family{check.Commands}, Sessions: golden.Job(t), Cases: []golden.Case{
		{Name: "check", Lines: []string{"check train.py", "check clean.py", "check --format json train.py",
			"check --format github .", "check --format junit train.py",
			"check --diff train.py", "check --fix train.py", "cat train.py", "check broken.py", "done check train.py",
			"mute check train.py"}},
		{Name: "explain", Lines: []string{"check --explain MG101"}},
		{Name: "check-wrong", Lines: []string{"check", "check none.py", "check --format xml train.py",
			"check --select MG9 train.py", "check --explain MG999", "check --fixx train.py",
			"check --fix --diff train.py"}},
	}, Files: map[string]string{"train.py": training, "clean.py": "import torch\n", "broken.py": "def f(:\n"}})
}
