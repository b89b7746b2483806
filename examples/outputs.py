"""Trains a classifier in epochs and leaks on purpose: the outputs of each step are kept for the epoch's metrics, and
the list is never cleared.

    python examples/outputs.py [EPOCHS]
"""
import sys

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Trainer:
    def __init__(self, epochs):
        self.epochs = epochs
        self.model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.step_outputs = []

    def step(self):
        logits = self.model(torch.randn(128, 64))
        loss = nn.functional.cross_entropy(logits, torch.randint(0, 512, (128,)))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.step_outputs.append(logits.detach())  # 256 KiB a step
        return loss

    def fit(self):
        for epoch in range(1, self.epochs + 1):
            for _ in range(100):
                loss = self.step()
            if epoch % 5 == 0:
                print("epoch %d: loss %.2f" % (epoch, loss.item()), flush=True)


Trainer(int(sys.argv[1]) if len(sys.argv) > 1 else 10).fit()
