import ctypes
import ctypes.util

import torch
from torch import nn

libc = ctypes.CDLL(ctypes.util.find_library("c"))
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]


def histogram(values, bins=800):
    """Counts with a C routine that wants a buffer of its own."""
    table = libc.malloc(4 * bins)
    ctypes.memset(table, 0, 4 * bins)
    counts = (ctypes.c_int32 * bins).from_address(table)
    for i in values:
        counts[i] += 1
    top = max(range(bins), key=counts.__getitem__)
    libc.free(table)
    return top


class Quantizer(nn.Module):
    def __init__(self, codes=800, dim=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, dim))
        self.codes = nn.Embedding(codes, dim)
        self.decode = nn.Sequential(nn.Linear(dim, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, x):
        z = self.encode(x)
        index = torch.cdist(z.detach(), self.codes.weight.detach()).argmin(1)
        q = self.codes(index)
        commit = (z - q.detach()).pow(2).mean() + (q - z.detach()).pow(2).mean()
        return self.decode(z + (q - z).detach()), commit, index


def main():
    torch.manual_seed(37)
    model = Quantizer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    mix = torch.randn(8, 64)
    for step in range(1500):
        n = 1500 if step % 90 == 89 else 96
        x = torch.randn(n, 8) @ mix
        y, commit, index = model(x)
        loss = nn.functional.mse_loss(y, x) + 0.25 * commit
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        top = histogram(index[:200].tolist())
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.4f} most used {top}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
