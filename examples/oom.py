"""Trains until memory runs out: a replay list keeps every step's activations. The address space is limited to SIZE MiB
beyond what the imports take, so that no machine is harmed.

    python examples/oom.py [SIZE]
"""
import resource
import sys

import torch
from torch import nn

MIB = 1 << 20
torch.manual_seed(0)
torch.set_num_threads(1)


def limit(size):
    """From now on the process gets at most size more bytes of address space."""
    with open("/proc/self/statm") as f:
        taken = int(f.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + size, resource.RLIM_INFINITY))


def train(model, optimizer):
    history = []
    for step in range(1, 100_000):
        x = torch.randn(256, 128)
        features = model[0](x)
        loss = model[1:](features).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(features.detach())  # the mistake: 512 KiB a step, kept for a plot that nobody draws
        if step % 200 == 0:
            print("step %d: loss %.4f" % (step, loss.item()), flush=True)


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
limit((int(sys.argv[1]) if len(sys.argv) > 1 else 600) * MIB)
train(model, optimizer)
