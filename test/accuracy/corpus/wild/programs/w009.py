import random

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(256, 192), nn.Linear(192, 10)

    def forward(self, x):
        hidden = torch.relu(self.hidden(x))
        return self.head(hidden), hidden


def batch(step, n=64):
    y = torch.randint(0, 10, (n,))
    return torch.randn(n, 256) + y.view(-1, 1) / 5, y


class Replay:
    def __init__(self, capacity):
        self.storage, self.capacity, self.size = {}, capacity, 0

    def store(self, item):
        if self.size < self.capacity:
            self.storage[self.size] = item
            self.size += 1
        else:
            self.storage[random.randrange(self.capacity)] = item


def main():
    torch.manual_seed(109)
    random.seed(109)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    replay = Replay(600)
    for step in range(1000):
        x, y = batch(step)
        replay.store((x[:3].clone(), y[:3].clone(), float(step)))
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
