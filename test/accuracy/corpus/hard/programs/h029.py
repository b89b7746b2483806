import math

import torch
from torch import nn


class Task(nn.Module):
    """Low-rank adapter of one user on a shared body."""

    def __init__(self, dim, rank=4):
        super().__init__()
        self.down = nn.Parameter(torch.randn(dim, rank) / math.sqrt(dim))
        self.up = nn.Parameter(torch.zeros(rank, dim))

    def forward(self, h):
        return h + h @ self.down @ self.up


class Body(nn.Module):
    def __init__(self, dim=192):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, dim), nn.GELU(), nn.Linear(dim, dim), nn.GELU())
        self.head = nn.Linear(dim, 8)

    def forward(self, x, task):
        return self.head(task(self.net(x)))


def main():
    torch.manual_seed(15)
    body = Body()
    optimizer = torch.optim.Adam(body.parameters(), lr=1e-3)
    base = torch.randn(8, 64)
    done = 0.0
    for user in range(120):
        task = Task(192)
        optimizer.add_param_group({"params": list(task.parameters()), "lr": 5e-3})
        centres = base + 0.3 * torch.randn(8, 64)
        for step in range(8):
            y = torch.randint(0, 8, (64,))
            x = centres[y] + torch.randn(64, 64)
            loss = nn.functional.cross_entropy(body(x, task), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        done += loss.item()
        if user % 20 == 0:
            print(f"user {user} loss {loss.item():.4f} mean {done / (user + 1):.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
