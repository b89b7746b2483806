"""Leaves holes in PyTorch's cache on purpose: blocks of 3 MiB, every second one freed, then waits for FILE.

    fragments.py FILE
"""
import os
import sys
import time

import torch

DEVICE = os.environ.get("MEMGAUGE_KIT_DEVICE", "cuda")
model = torch.nn.Linear(64, 64).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
held = [torch.zeros(3 << 18, device=DEVICE) for _ in range(400)]
del held[::2]
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    loss = model(torch.randn(8, 64, device=DEVICE)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    time.sleep(0.02)
