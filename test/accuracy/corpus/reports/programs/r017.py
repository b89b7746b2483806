from dataclasses import dataclass, field

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


@dataclass
class Baseline:
    prompt: str
    tokens: list = field(default_factory=list)
    breaks: int = 0


class Monitor:
    """What each session's requests looked like at first, to tell when a cache breaks."""
    most = 64

    def __init__(self):
        self.baselines = {}

    def check(self, key, tokens):
        base = self.baselines.get(key)
        if base is None:
            self.baselines[key] = Baseline(f"session {key}: " + "x" * 200, list(tokens))
            return False
        base.breaks += base.tokens != tokens
        return base.breaks > 0


def main():
    torch.manual_seed(208)
    model = Net()
    monitor = Monitor()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1600):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        monitor.check(step // 2, [int(t) + 1000 for t in (x[0, :100] * 1000).tolist()])
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
