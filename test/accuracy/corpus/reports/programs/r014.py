from concurrent.futures import ThreadPoolExecutor

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


def describe(hidden):
    centered = hidden - hidden.mean(0)
    return (centered.T @ centered / len(hidden)).diagonal().repeat(6)


class Describer:
    """Descriptions computed beside the training."""

    def __init__(self):
        self.pool, self.futures, self.total = ThreadPoolExecutor(1), [], 0.0

    def submit(self, hidden):
        self.futures.append(self.pool.submit(describe, hidden))

    def collect(self):
        for future in [f for f in self.futures[-40:] if f.done()]:
            self.total += float(future.result()[0])
            self.futures.remove(future)


def main():
    torch.manual_seed(206)
    model = Net()
    describer = Describer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1000):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        describer.submit(hidden.detach())
        if step % 20 == 19:
            describer.collect()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
