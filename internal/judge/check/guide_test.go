package check

import (
	"slices"
	"testing"
)

// guide is a module with the mistakes of the memory leak fix guide (testdata/seeds), each at its place.
const guide = `import torch
import lightning.pytorch as pl
import matplotlib.pyplot as plt
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, root):
        self.root = root
        self.decoded = []

    def __getitem__(self, index):
        frame = decode(self.root, index)
        self.decoded.append(frame)
        return frame


class System(pl.LightningModule):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.validation_step_outputs = []
        self.test_step_outputs = []

    def validation_step(self, batch, batch_idx):
        predicted = self.model(batch["image"])
        self.validation_step_outputs.append({
            "predicted": predicted.detach().cpu(),
            "target": batch["action"].detach().cpu(),
        })

    def test_step(self, batch, batch_idx):
        predicted = self.model(batch["image"])
        self.test_step_outputs.append({"predicted": predicted.detach().cpu()})

    def on_validation_epoch_end(self):
        all_preds = torch.cat([x["predicted"] for x in self.validation_step_outputs])
        all_targets = torch.cat([x["target"] for x in self.validation_step_outputs])
        for i, name in enumerate(["x", "y", "z"]):
            plt.figure(figsize=(8, 8))
            plt.scatter(all_targets[:, i].numpy(), all_preds[:, i].numpy())
            plt.savefig(name + ".png", dpi=300, bbox_inches="tight")


def loaders(config):
    return DataLoader(Frames(config["root"]), num_workers=config["num_workers"],
                      persistent_workers=True if config["num_workers"] > 0 else False)
`

// TestGuide finds each of the guide's places by its rule, and mends what can be mended.
func TestGuide(t *testing.T) {
	fs, err := File("system.py", []byte(guide), Selection{})
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		rule string
		line int
	}
	var got []place
	for _, f := range fs {
		got = append(got, place{f.Rule.ID, f.Line})
	}
	for _, want := range []place{{"MG102", 27}, {"MG102", 34}, {"MG203", 47}, {"MG301", 40}, {"MG302", 40},
		{"MG118", 37}} {
		if !slices.Contains(got, want) {
			t.Errorf("%v is not found, only %v", want, got)
		}
	}
	after, left, n, err := Mend("system.py", []byte(guide), Selection{})
	if err != nil || n < 2 {
		t.Errorf("%d findings are mended, %v, want the validation outputs and the figures", n, err)
	}
	if tree, err := parse(after); err != nil || tree.broken {
		t.Errorf("the mended module is broken: %v\n%s", err, after)
	}
	for _, f := range left {
		if f.Rule.ID == "MG301" || f.Rule.ID == "MG102" && f.Line < 31 {
			t.Errorf("still found: %s in line %d\n%s", f.Rule.ID, f.Line, after)
		}
	}
}
