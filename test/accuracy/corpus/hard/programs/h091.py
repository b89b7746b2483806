import mmap

import numpy as np
import torch
from torch import nn

ALIGN = 4096


def aligned(array):
    """A copy that begins at a page, for direct I/O."""
    size = -(-array.nbytes // ALIGN) * ALIGN
    block = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = np.frombuffer(block, array.dtype, array.size).reshape(array.shape)
    view[...] = array
    return view


class Writer:
    """Queues arrays for the disk and writes them when there are enough."""

    def __init__(self, batch):
        self.batch, self.queue, self.written = batch, [], 0

    def put(self, array):
        self.queue.append(aligned(array))
        ready = self.queue[self.written:]
        if len(ready) == self.batch:
            self.written += self.batch
            return float(sum(a.sum() for a in ready))
        return None


class Denoiser(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim + 1, 256), nn.SiLU(), nn.Linear(256, 256), nn.SiLU(), nn.Linear(256, dim))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))


def main():
    torch.manual_seed(46)
    model, writer, checksum = Denoiser(), Writer(10), 0.0
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    basis = torch.randn(6, 128)
    for step in range(900):
        clean = torch.randn(64, 6) @ basis / 2.5
        t = torch.rand(64, 1)
        noise = torch.randn_like(clean)
        guess = model((1 - t) * clean + t * noise, t)
        loss = nn.functional.mse_loss(guess, noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        checksum = writer.put(guess.detach().numpy()) or checksum
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f} checksum {checksum:.2f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
