import collections
import copy

import torch
from torch import nn


def encoder():
    return nn.Sequential(
        nn.Conv2d(3, 12, 3, 2, 1), nn.ReLU(), nn.Conv2d(12, 24, 3, 2, 1), nn.ReLU(), nn.Flatten(),
        nn.Linear(24 * 36, 256))


class MoCo(nn.Module):
    """Momentum contrast: keys of the last batches are the negatives."""

    def __init__(self):
        super().__init__()
        self.query = encoder()
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.queue = collections.deque()

    @torch.no_grad()
    def keys(self, x):
        for q, k in zip(self.query.parameters(), self.key.parameters()):
            k.lerp_(q, 0.01)
        return nn.functional.normalize(self.key(x), dim=1)

    def forward(self, a, b):
        q, k = nn.functional.normalize(self.query(a), dim=1), self.keys(b)
        negatives = torch.cat(list(self.queue)[-40:] or [k.roll(1, 0)])
        logits = torch.cat([(q * k).sum(1, keepdim=True), q @ negatives.T], 1) / 0.1
        self.queue.append(k)
        return nn.functional.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))


def main():
    torch.manual_seed(51)
    model = MoCo()
    optimizer = torch.optim.SGD(model.query.parameters(), lr=0.03, momentum=0.9)
    pool = torch.randn(400, 3, 24, 24)
    for step in range(1000):
        x = pool[torch.randint(0, 400, (12,))]
        loss = model(x + 0.2 * torch.randn_like(x), x.flip(3) + 0.2 * torch.randn_like(x))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 125 == 0:
            print(f"step {step} loss {loss.item():.4f} queue {len(model.queue)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
