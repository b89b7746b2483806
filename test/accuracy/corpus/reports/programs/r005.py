from collections import OrderedDict

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 160), nn.Linear(160, 8)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x))
        return self.head(hidden), hidden


def batch(n=48):
    y = torch.randint(0, 8, (n,))
    return torch.randn(n, 128) + y.view(-1, 1) / 4, y


class GradientCache:
    """Gradients by what they were computed of."""

    def __init__(self, most):
        self.entries, self.most = OrderedDict(), most

    def key(self, model, x):
        with torch.no_grad():
            return (round(float(model.head.weight.sum()), 9), float(x[0, 0]))

    def store(self, key, gradient):
        self.entries[key] = gradient

    def get(self, key):
        return self.entries.get(key)


def main():
    torch.manual_seed(202)
    model = Net()
    cache = GradientCache(16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1200):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        key = cache.key(model, x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if cache.get(key) is None:
            cache.store(key, model.head.weight.grad.clone())
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
