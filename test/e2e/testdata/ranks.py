"""A rank of a training over gloo; one rank keeps its losses with their graphs. Arguments: steps, the rank that leaks, a
file: when it is there the ranks end, so that they can be asked while they live."""
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn

STEPS, LEAKS, OVER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
torch.set_num_threads(1)
torch.manual_seed(0)
dist.init_process_group("gloo")
rank = dist.get_rank()
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 64)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
all_losses = []

for step in range(STEPS):
    x = torch.randn(512, 64)
    loss = nn.functional.mse_loss(model(x), x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    kept = nn.functional.mse_loss(model.module(x), x)  # validation
    all_losses.append(kept if rank == LEAKS else kept.item())

print("rank", rank, "made", STEPS, flush=True)
while not os.path.exists(OVER):
    time.sleep(0.05)
dist.destroy_process_group()
