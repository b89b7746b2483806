import torch
from torch import nn


class Balance:
    """Weights two losses by their running means."""

    def __init__(self, decay=0.98):
        self.decay = decay
        self.means = {}

    def __call__(self, **losses):
        for name, loss in losses.items():
            self.means[name] = self.decay * self.means.get(name, loss) + (1 - self.decay) * loss
        total = sum(m.detach() for m in self.means.values())
        return sum(loss * (total / self.means[name].detach()).clamp(max=5.0) for name, loss in losses.items())


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU())
        self.kind, self.value = nn.Linear(96, 6), nn.Linear(96, 1)

    def forward(self, x):
        h = self.body(x)
        return self.kind(h), self.value(h).squeeze(-1)


def main():
    torch.manual_seed(27)
    model, balance = TwoHeads(), Balance()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    directions = torch.randn(6, 32)
    for step in range(1200):
        x = torch.randn(40, 32)
        kind, value = model(x)
        loss = balance(
            kind=nn.functional.cross_entropy(kind, (x @ directions.T).argmax(1)),
            value=nn.functional.mse_loss(value, x.pow(2).mean(1)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
