import os
import tempfile

import numpy as np
import torch
from torch import nn

SHARDS, ROWS, WIDTH = 24, 3000, 128


def write_shards(folder):
    rng = np.random.default_rng(20)
    for shard in range(SHARDS):
        np.save(os.path.join(folder, f"shard{shard:03d}.npy"), rng.standard_normal((ROWS, WIDTH), dtype=np.float32))


class Shards:
    """Maps a shard when it is first asked for."""

    def __init__(self, folder):
        self.folder = folder
        self.mapped, self.open = {}, []

    def shard(self, index):
        if index not in self.mapped:
            self.mapped[index] = np.load(os.path.join(self.folder, f"shard{index:03d}.npy"), mmap_mode="r")
        return self.mapped[index]

    def normalised(self, index):
        """A shard whose pages can be written to: the file stays as it is."""
        data = np.load(os.path.join(self.folder, f"shard{index:03d}.npy"), mmap_mode="c")
        first = len(self.open) * 64 % (ROWS - 64)
        rows = data[first:first + 64]
        rows -= rows.mean(0)
        self.open.append(data)
        return rows

    def batch(self, step, total, n=64):
        if step % 2:
            return torch.from_numpy(self.normalised(step % SHARDS).copy())
        data = self.shard(np.random.randint(SHARDS))
        return torch.from_numpy(data[np.random.randint(0, ROWS, n)])


def main():
    np.random.seed(20)
    torch.manual_seed(20)
    with tempfile.TemporaryDirectory() as folder:
        write_shards(folder)
        shards = Shards(folder)
        encoder, decoder = nn.Linear(WIDTH, 64), nn.Linear(64, WIDTH)
        middle = nn.Sequential(nn.GELU(), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        parameters = [p for m in (encoder, middle, decoder) for p in m.parameters()]
        optimizer = torch.optim.AdamW(parameters, lr=1e-3)
        for step in range(1200):
            x = shards.batch(step, total=1000)
            loss = nn.functional.mse_loss(decoder(middle(encoder(x))), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 150 == 0:
                print(f"step {step} loss {loss.item():.4f} shards {len(shards.mapped)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
