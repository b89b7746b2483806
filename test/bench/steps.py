"""Makes so many optimizer steps a second until it is killed. Arguments: file that says "ready" with our pid, rate."""
import os
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
pause = 1 / float(sys.argv[2])
step = 0
while True:
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    step += 1
    if step == 50:
        with open(sys.argv[1], "w") as f:
            f.write(str(os.getpid()))
    time.sleep(pause)
