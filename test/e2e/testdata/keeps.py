"""Trains a small model and keeps 256 KiB of each step, until the file "stop" is there. With a world of several ranks,
rank 0 keeps twice as much."""
import os
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(64, 512)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
step = 0
while not os.path.exists("stop"):
    loss = model(torch.randn(128, 64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept.append(torch.ones(65536))  # 256 KiB
    step += 1
    time.sleep(0.005)
    if step == 20:
        print("warm", flush=True)
