"""A small training that leaks on purpose and knows what it did. Arguments: steps MiB-per-step [pause [refused]];
refused: it ends with an allocation that no machine has room for."""
import os
import sys
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU())
        self.attn = torch.nn.Linear(32, 32)
        self.head = torch.nn.Linear(32, 1)

    def forward(self, x):
        return self.head(self.attn(self.encoder(x)))


steps, leak = int(sys.argv[1]), float(sys.argv[2])
pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
all_losses = []
print("pid", os.getpid(), flush=True)
for step in range(1, steps + 1):
    x = torch.randn(8, 16)
    optimizer.zero_grad(set_to_none=True)
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    all_losses.append(torch.ones(int(leak * (1 << 18))) if leak else loss.item())
    if pause:
        time.sleep(pause)
    if step == 5:
        print("warm", flush=True)
if "refused" in sys.argv:
    torch.empty(1 << 42)
print("done", len(all_losses), flush=True)
