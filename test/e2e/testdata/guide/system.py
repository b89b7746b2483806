"""A Lightning module with the five mistakes of the memory leak guide (testdata/seeds), at a size that dies in 1 GiB."""
import os
import sys
import time

import lightning.pytorch as pl
import matplotlib.pyplot as plt
import torch
from torch.utils.data import DataLoader, Dataset

WIDTH = 2048


class Frames(Dataset):
    def __init__(self, length):
        self.length = length
        self.decoded = []

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        frame = torch.full((WIDTH,), float(index % 7))
        self.decoded.append(frame)
        return frame


class System(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Linear(WIDTH, WIDTH)
        self.validation_step_outputs = []
        self.test_step_outputs = []

    def training_step(self, batch, batch_idx):
        time.sleep(0.005)
        return (self.model(batch) - batch).square().mean()

    def validation_step(self, batch, batch_idx):
        predicted = self.model(batch)
        self.validation_step_outputs.append({
            "predicted": predicted[:, :6].detach().cpu(),    # a view: it keeps the whole batch
            "target": batch[:, :6].detach().cpu(),
        })

    def test_step(self, batch, batch_idx):
        predicted = self.model(batch)
        self.test_step_outputs.append({"predicted": predicted.detach().cpu()})

    def on_validation_epoch_end(self):
        all_preds = torch.cat([x["predicted"] for x in self.validation_step_outputs])
        all_targets = torch.cat([x["target"] for x in self.validation_step_outputs])
        for i, name in enumerate(["x", "y", "z"]):
            plt.figure(figsize=(8, 8))
            plt.scatter(all_targets[:, i].numpy(), all_preds[:, i].numpy())
            plt.savefig(os.path.join(sys.argv[1], name + ".png"), dpi=300, bbox_inches="tight")
        self.log("val_error", float((all_preds - all_targets).square().mean()))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


def loader(batches, size, num_workers):
    return DataLoader(Frames(size * batches), batch_size=size, num_workers=num_workers,
                      persistent_workers=True if num_workers > 0 else False)


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    trainer = pl.Trainer(max_epochs=int(sys.argv[2]), accelerator="cpu", logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
                         default_root_dir=sys.argv[1])
    system = System()
    trainer.fit(system, loader(40, 16, 1), loader(24, 64, 1))
    trainer.test(system, loader(5, 64, 0), verbose=False)
    print("finished %d epochs" % trainer.current_epoch)


main()
