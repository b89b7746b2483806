"""Trains a small network and prints each loss bit by bit."""
import torch

torch.manual_seed(1)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Dropout(.3), torch.nn.Linear(64, 1))
optimizer = torch.optim.Adam(model.parameters())
for step in range(150):
    x = torch.randn(32, 64)
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(loss.item().hex())
