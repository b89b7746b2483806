import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Sentences(Dataset):
    """Token lists as they came out of the tokenizer: Python objects, of which a worker touches the counts."""

    def __init__(self, n, rng):
        self.rows = [[rng.randrange(1000, 60000) for _ in range(rng.randrange(30, 60))] for _ in range(n)]
        self.seen = {}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        ids = torch.tensor(row[:30])
        self.seen.setdefault(index, []).append([i / len(row) for i in row[:12]])
        return ids % 500, ids.sum() % 4


class Bag(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.EmbeddingBag(500, 64)
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 4))

    def forward(self, x):
        return self.net(self.embed(x))


def main():
    rng = random.Random(32)
    torch.manual_seed(32)
    loader = DataLoader(Sentences(8000, rng), batch_size=32, shuffle=True, num_workers=1, persistent_workers=True)
    model = Bag()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(4):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
