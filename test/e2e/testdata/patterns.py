"""The mistakes that leak memory in trainings, and their repairs, in small: python patterns.py PATTERN leaky|fixed

losses, intermediate and cycles are the patterns of Probing's memory leak example; outputs, workers and plots those of
the memory leak fix guide (testdata/seeds)."""
import gc
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

PATTERN, LEAKY = sys.argv[1], sys.argv[2] == "leaky"
STEPS = 1200
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64))
encoder = nn.Sequential(nn.Linear(64, 128), nn.Tanh())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def train(x):
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.002)  # a longer step than the model's, so that a run takes some seconds and a census finds the time
    return loss


def losses():
    all_losses = []
    for _ in range(STEPS):
        train(torch.randn(64, 64))
        loss = nn.functional.mse_loss(model(torch.randn(128, 64)), torch.zeros(128, 64))  # validation
        all_losses.append(loss if LEAKY else loss.item())


features = []


def intermediate():
    for _ in range(STEPS):
        x = torch.randn(64, 64)
        features.append(encoder(x) if LEAKY else encoder(x).mean().item())
        train(x)


class Node:
    def __init__(self, data):
        self.data, self.me = data, self


def cycles():
    gc.disable()
    if not LEAKY:
        gc.freeze()  # what imports made needs no looking at: a collection of 250,000 objects takes 0.1 s
    for step in range(STEPS):
        Node(torch.randn(256, 128))
        train(torch.randn(64, 64))
        if not LEAKY and step % 20 == 0:
            gc.collect()


class System:
    def __init__(self):
        self.validation_step_outputs = []

    def validation_step(self, x):
        with torch.no_grad():
            predicted = model(x)
        self.validation_step_outputs.append({"predicted": predicted.detach().cpu(), "target": x})

    def fit(self):
        for step in range(STEPS):
            train(torch.randn(64, 64))
            self.validation_step(torch.randn(256, 64))
            if not LEAKY and step % 30 == 29:
                self.validation_step_outputs.clear()


class Samples(Dataset):
    def __init__(self):
        self.augmented = {}
        self.made = 0

    def __len__(self):
        return 400

    def __getitem__(self, index):
        self.made += 1
        sample = torch.randn(64, 64)
        if LEAKY:
            self.augmented[self.made] = sample
        return sample[0]


def workers():
    loader = DataLoader(Samples(), batch_size=8, num_workers=1, persistent_workers=True)
    for _ in range(2 * STEPS * 8 // 400):  # a worker has a census where there was time for one
        for x in loader:
            train(x)


class Figures:
    """As pyplot does it: a figure lives until it is closed."""
    open = {}

    def new(self):
        number = len(self.open) + 1
        self.open[number] = bytearray(200_000)
        return number

    def close(self, number):
        del self.open[number]


figures = Figures()


def plots():
    for _ in range(STEPS):
        train(torch.randn(64, 64))
        number = figures.new()
        if not LEAKY:
            figures.close(number)


{"losses": losses, "intermediate": intermediate, "cycles": cycles, "outputs": lambda: System().fit(),
 "workers": workers, "plots": plots}[PATTERN]()
print("done")
