import random

import torch
from torch import nn


class NonFinite(RuntimeError):
    pass


class Guard:
    """Skips batches whose loss is off, and knows what went wrong before."""

    def __init__(self, limit):
        self.limit, self.last, self.skipped = limit, None, 0

    def check(self, logits, loss):
        try:
            if loss.item() > self.limit(loss.item()):
                raise NonFinite(f"loss {loss.item():.3f} for {tuple(logits.shape)}")
        except NonFinite as error:
            error.__cause__ = self.last
            self.last = error
            self.skipped += 1
            return False
        return True


class Drift:
    def __init__(self):
        self.mean = None

    def __call__(self, loss):
        self.mean = loss if self.mean is None else 0.95 * self.mean + 0.05 * loss
        return 1.02 * self.mean


def main():
    random.seed(16)
    torch.manual_seed(16)
    model = nn.Sequential(
        nn.Conv1d(2, 24, 7, 2, 3), nn.ReLU(), nn.Conv1d(24, 24, 7, 2, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(24 * 24, 30))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    guard = Guard(Drift())
    centres = torch.randn(30, 2, 96)
    for step in range(1100):
        y = torch.randint(0, 30, (64,))
        x = centres[y] + random.uniform(0.8, 1.2) * torch.randn(64, 2, 96)
        logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        if guard.check(logits, loss):
            loss.backward()
        else:
            (0.1 * loss).backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} skipped {guard.skipped}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
