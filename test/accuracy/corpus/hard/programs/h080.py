import collections
import random

import torch
from torch import nn


class Forgetting:
    """Loss of each sample over time, to find those that are forgotten (Toneva et al.)."""

    def __init__(self):
        self.history = {}

    def update(self, indices, losses):
        for index, loss in zip(indices.tolist(), losses.tolist()):
            self.history.setdefault(index, collections.deque(maxlen=3)).append(loss)

    def weights(self, indices):
        out = []
        for index in indices.tolist():
            past = self.history.get(index)
            out.append(1.0 if not past else 0.5 + sum(past) / len(past))
        w = torch.tensor(out)
        return w / w.mean()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(72, 192), nn.ReLU(), nn.BatchNorm1d(192), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 7))

    def forward(self, x):
        return self.net(x)


def main():
    random.seed(40)
    torch.manual_seed(40)
    data = torch.randn(6000, 72)
    labels = (data @ torch.randn(72, 7)).argmax(1)
    model, forgetting = Net(), Forgetting()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(24):
        for indices in torch.randperm(6000).split(160):
            losses = nn.functional.cross_entropy(model(data[indices]), labels[indices], reduction="none")
            loss = (forgetting.weights(indices) * losses).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            forgetting.update(indices, losses.detach())
        if epoch % 4 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} known {len(forgetting.history)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
