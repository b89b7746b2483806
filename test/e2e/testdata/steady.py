"""Makes steps until the file that its argument names is there; prints how many."""
import os
import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
made = 0
while not os.path.exists(sys.argv[1]):
    loss = model(torch.randn(4, 8)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    made += 1
    if made == 50:
        print("going", flush=True)
    time.sleep(0.002)
print("made", made, flush=True)
