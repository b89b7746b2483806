from collections import deque

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


class Episode:
    def __init__(self):
        self.hist_data = {}


class MonitorInfo:
    """Called at every step of an episode with what the environment tells."""

    def on_step(self, episode, info):
        for key, value in info.items():
            episode.hist_data.setdefault(key, deque(maxlen=50)).append(value)


def environment(step):
    return {f"joint_{i}": (step * 0.1 + i) % 7.3 for i in range(60)}


def main():
    torch.manual_seed(203)
    model = Net()
    episode, monitor = Episode(), MonitorInfo()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1500):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.on_step(episode, environment(step))
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
