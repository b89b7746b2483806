import random
from collections import defaultdict

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 160), nn.Linear(160, 8)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x))
        return self.head(hidden), hidden


def batch(n=48):
    y = torch.randint(0, 8, (n,))
    return torch.randn(n, 128) + y.view(-1, 1) / 4, y


class Storage:
    """A ring of the newest batches."""

    def __init__(self, capacity):
        self.capacity, self.batches, self.at = capacity, [], 0

    def add(self, batch):
        if len(self.batches) < self.capacity:
            self.batches.append(batch)
        else:
            self.batches[self.at] = batch
        self.at = (self.at + 1) % self.capacity


class Mixed:
    def __init__(self, capacity):
        self.storage, self.last_added = Storage(capacity), defaultdict(list)

    def add(self, policy, x):
        self.storage.add(x[:3].clone())
        self.last_added[policy].append(x[3:6].clone())

    def sample(self):
        return random.choice(self.storage.batches)


def main():
    torch.manual_seed(204)
    random.seed(4)
    model = Net()
    buffer = Mixed(150)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1100):
        x, y = batch()
        buffer.add("main", x)
        x = x + 0.01 * buffer.sample().mean()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
