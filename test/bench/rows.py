"""Makes so many trace rows, and then its main thread comes by every half millisecond. Arguments: file that says "ready"
with our pid, rows."""
import os
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(13)])
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
all_losses = []
for step in range(int(sys.argv[2]) // 30):  # 13 layers, the root and the optimizer, two rows each
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).sum()
    loss.backward()
    optimizer.step()
    all_losses.append(torch.ones(1 << 18))
with open(sys.argv[1], "w") as f:
    f.write(str(os.getpid()))
end = time.monotonic() + 600
while time.monotonic() < end:
    time.sleep(0.0005)
