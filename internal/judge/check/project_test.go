package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"
)

// across are projects of some files: what is found in which line of which file, and nothing else.
var across = []struct {
	name, files string
	want        []string
}{
	{"a meter that keeps graphs, handed on by a package", `
-- utils/__init__.py --
from .meters import *
-- utils/meters.py --
class AverageMeter:
    def __init__(self):
        self.sum = 0
        self.count = 0
    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
-- train.py --
import torch
from utils import AverageMeter
def train(model, loader, criterion, optimizer):
    losses = AverageMeter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.update(loss, len(x))
`, []string{"train.py:9 MG104"}},
	{"a loss of a module's method in another file, made of its parameters alone", `
-- model.py --
import torch
import torch.nn.functional as F
class NGCF(torch.nn.Module):
    def bpr(self, users, items, others):
        loss = -torch.mean(F.logsigmoid((users * items - users * others).sum(1)))
        return loss, loss
-- main.py --
import torch
from model import NGCF
def main(sampler, device, epochs):
    model = NGCF().to(device)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(epochs):
        total = 0.0
        for batch in range(100):
            users, items, others = model(sampler())
            loss, other = model.bpr(users, items, others)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss
        print(total)
`, []string{"main.py:14 MG101"}},
	{"a replay memory that another file makes anew in each round", `
-- memory.py --
class Memory:
    def __init__(self):
        self.memory = []
    def push(self, *transition):
        self.memory.append(transition)
import torch
-- main.py --
import torch
from memory import Memory
def main(collect, rounds):
    for i in range(rounds):
        memory = Memory()
        collect(memory)
`, nil},
	{"a meter that makes numbers", `
-- meters.py --
class AverageMeter:
    def __init__(self):
        self.sum = 0
    def update(self, value, n=1):
        self.sum += value.item() * n
-- train.py --
import torch
from meters import AverageMeter
def train(model, loader, criterion, optimizer):
    losses = AverageMeter()
    for x, y in loader:
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.update(loss, len(x))
`, nil},
	{"an evaluation that its caller runs without gradients", `
-- lib/evaluation.py --
import torch
def evaluate(model, test_loader):
    model.eval()
    right = 0
    for x, y in test_loader:
        right += (model(x).argmax(1) == y).sum().item()
    return right
-- main.py --
import torch
from lib.evaluation import evaluate
with torch.no_grad():
    evaluate(model, test_loader)
`, nil},
	{"an evaluation that nobody runs without gradients", `
-- lib/evaluation.py --
import torch
def evaluate(model, test_loader):
    model.eval()
    right = 0
    for x, y in test_loader:
        right += (model(x).argmax(1) == y).sum().item()
    return right
-- main.py --
import torch
from lib.evaluation import evaluate
evaluate(model, test_loader)
`, []string{"lib/evaluation.py:6 MG117"}},
	{"a method that its caller runs without gradients", `
-- runner.py --
import torch
class Runner:
    def test(self):
        self.model.eval()
        for x in self.test_loader:
            print(self.model(x))
-- main.py --
import torch
from runner import Runner
runner = Runner()
with torch.no_grad():
    runner.test()
`, nil},
	{"a helper that adds to a list", `
-- helpers.py --
import torch
def remember(store, value):
    store.append(value)
-- train.py --
import torch
from helpers import remember
losses = []
for x, y in train_loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    remember(losses, loss)
`, []string{"train.py:8 MG103"}},
	{"a function that returns a number beside a loss", `
-- steps.py --
import torch
def step(model, x, y, criterion):
    loss = criterion(model(x), y)
    return loss, loss.item()
-- train.py --
import torch
from steps import step
kept, total, sums = [], 0, 0
for x, y in train_loader:
    loss, figure = step(model, x, y, criterion)
    loss.backward()
    optimizer.step()
    total += figure
    kept.append(figure)
    sums += loss
`, []string{"train.py:10 MG101"}},
	{"a function that makes numbers of the items that it is given", `
-- ranks.py --
import torch
def reduced(values):
    for i in range(len(values)):
        torch.distributed.all_reduce(values[i])
        values[i] = values[i].item()
    return values
-- train.py --
import torch
from ranks import reduced
total = 0
for x, y in train_loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    [loss] = reduced(values=[loss])
    loss = loss / 2
    total += loss
`, nil},
	{"a function that adds up what it is given", `
-- losses.py --
import torch
def regularised(loss, model):
    return loss + 0.1 * sum(p.norm() for p in model.parameters())
-- train.py --
import torch
import losses
total = 0
for x, y in train_loader:
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    total += losses.regularised(loss, model)
`, []string{"train.py:8 MG101"}},
}

func TestAcrossFiles(t *testing.T) {
	for _, c := range across {
		t.Run(c.name, func(t *testing.T) {
			if got := foundIn(t, c.files); !slices.Equal(got, c.want) {
				t.Errorf("found %v, want %v", got, c.want)
			}
		})
	}
}

// foundIn is what is found in the files of an archive that are read as one project.
func foundIn(t *testing.T, files string) (list []string) {
	t.Helper()
	dir := t.TempDir()
	var paths []string
	for _, f := range txtar.Parse([]byte(files)).Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	p, found := NewProject(), map[string][]Finding{}
	for _, path := range paths {
		found[path], _ = p.Read(path, Selection{})
	}
	p.Link()
	for _, path := range paths {
		if p.Again(path) {
			found[path], _ = p.Read(path, Selection{})
		}
		for _, f := range found[path] {
			name, _ := filepath.Rel(dir, path)
			list = append(list, fmt.Sprintf("%s:%d %s", name, f.Line, f.Rule.ID))
		}
	}
	return list
}

// TestWorkOfProjects: a file is read twice at most, and the second time only if others tell something about it.
func TestWorkOfProjects(t *testing.T) {
	dir, p := t.TempDir(), NewProject()
	alone := filepath.Join(dir, "alone.py")
	text := "import torch\nimport os\nkept = []\nfor x in loader:\n    kept.append(os.path.join(x))\n"
	if err := os.WriteFile(alone, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Read(alone, Selection{})
	p.Link()
	if p.Again(alone) || p.Again(filepath.Join(dir, "none.py")) {
		t.Error("it would be read again, though nothing is known beyond it")
	}
}
