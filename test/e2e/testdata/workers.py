"""A training with four data-loader workers: `workers.py STOP` goes on until the file STOP is there, at most two
minutes."""
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 1 << 20

    def __getitem__(self, i):
        return torch.randn(3, 32, 32), i % 10


def main():
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 256), torch.nn.ReLU(),
                                torch.nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters())
    kept = bytearray(os.urandom(64 << 20))  # one large block
    until = time.time() + 120
    for x, y in DataLoader(Pictures(), batch_size=16, num_workers=4):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if os.path.exists(sys.argv[1]) or time.time() > until:
            break
    return len(kept)


if __name__ == "__main__":
    main()
