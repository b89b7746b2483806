import random

import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset


def annotate(n, directions):
    x = torch.randn(n, 50)
    return TensorDataset(x, (x @ directions).argmax(1))


class Learner:
    """Active learning: in each round new labels are bought and added to the data."""

    def __init__(self, directions):
        self.directions = directions
        self.model = nn.Sequential(nn.Linear(50, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 6))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.data = annotate(400, directions)

    def round(self, batches):
        self.data = ConcatDataset([self.data, annotate(120, self.directions)])
        recent = torch.utils.data.Subset(self.data, range(len(self.data) - 400, len(self.data)))
        total, seen = 0.0, 0
        for x, y in DataLoader(recent, batch_size=40, shuffle=True):
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total, seen = total + loss.item(), seen + 1
            if seen == batches:
                break
        return total / seen


def main():
    random.seed(42)
    torch.manual_seed(42)
    learner = Learner(torch.randn(50, 6))
    for index in range(160):
        loss = learner.round(batches=5)
        if index % 20 == 0:
            print(f"round {index} loss {loss:.4f} samples {len(learner.data)}")
    print(f"final loss {loss:.4f}")


if __name__ == "__main__":
    main()
