"""Keeps 512 MiB of activations a step until the device is full: a real CUDA out-of-memory error, with its traceback.

On the processor (MEMGAUGE_KIT_DEVICE=cpu) it stops after 20 steps instead.
"""
import os
import time

import torch
from torch import nn

DEVICE = os.environ.get("MEMGAUGE_KIT_DEVICE", "cuda")
SIZE = 512 << 20 if DEVICE != "cpu" else 1 << 20

model = nn.Linear(1024, 1024).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
activations = []
for step in range(100000 if DEVICE != "cpu" else 20):
    loss = model(torch.randn(256, 1024, device=DEVICE)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    activations.append(torch.zeros(SIZE // 4, device=DEVICE))
    time.sleep(0.02)
