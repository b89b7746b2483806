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


class Pool:
    """States to draw from."""

    def __init__(self, capacity):
        self.states, self.capacity, self.count, self.at = [], capacity, 0, 0

    def add(self, state):
        if self.count < self.capacity:
            self.states.append(state)
            self.count += 1
        else:
            self.states[self.at] = state
            self.at = (self.at + 1) % self.capacity

    def draw(self):
        return random.choice(self.states[-self.capacity:])


def main():
    torch.manual_seed(103)
    random.seed(103)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    pool = Pool(650)
    for step in range(1000):
        x, y = batch(step)
        pool.add(x[:4].clone())
        x = x + 0.01 * pool.draw().mean()
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
