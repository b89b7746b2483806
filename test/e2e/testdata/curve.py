"""A training whose losses are hashed: whatever is done to it from outside, the hash must stay. Arguments: steps, pause
in s; a step file tells how far it is. DIR/go lets it run past the half."""
import hashlib
import os
import sys
import time

import torch

steps, pause, progress = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
torch.manual_seed(7)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(32, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
digest = hashlib.sha256()
names = sorted(vars(torch.nn.modules.module)), sorted(vars(sys.modules["torch.optim.optimizer"]))
code = torch.nn.Module.__call__.__code__, torch.optim.Optimizer._optimizer_step_code
done = 0
print("ready", flush=True)
while done < steps or not os.path.exists(progress + ".stop"):
    x = torch.randn(8, 16)
    optimizer.zero_grad()
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    loss.backward()
    optimizer.step()
    done += 1
    if done <= steps:
        digest.update(loss.detach().numpy().tobytes())
    if done % 10 == 0:
        with open(progress, "w") as f:
            f.write(str(done))
    time.sleep(pause)
now = sorted(vars(torch.nn.modules.module)), sorted(vars(sys.modules["torch.optim.optimizer"]))
same = (sorted(set(names[0]) ^ set(now[0])) + sorted(set(names[1]) ^ set(now[1])),
        code == (torch.nn.Module.__call__.__code__, torch.optim.Optimizer._optimizer_step_code),
        sys.stdout is sys.__stdout__, [n for n in sys.modules if "memgauge" in n])
print(digest.hexdigest(), same, flush=True)
