import torch
from torch import nn


class MetricLog:
    def __init__(self):
        self.rows = []

    def add(self, step, per_class, loss):
        self.rows.append({"step": step, "loss": loss, "per_class": [round(v, 6) for v in per_class]})

    def mean_loss(self, last=100):
        rows = self.rows[-last:]
        return sum(r["loss"] for r in rows) / len(rows)


class Net(nn.Module):
    def __init__(self, classes=60):
        super().__init__()
        self.stem = nn.Conv1d(4, 24, 5, stride=2, padding=2)
        self.body = nn.Conv1d(24, 32, 5, stride=2, padding=2)
        self.head = nn.Linear(32 * 16, classes)

    def forward(self, x):
        h = nn.functional.relu(self.body(nn.functional.relu(self.stem(x))))
        return self.head(h.flatten(1))


@torch.no_grad()
def evaluate(model, patterns):
    """The whole test set in one go."""
    x = patterns.repeat(50, 1, 1) + torch.randn(50 * len(patterns), 4, 64)
    predicted = model(x).argmax(1)
    return (predicted == torch.arange(len(patterns)).repeat(50)).float().mean().item()


def main():
    torch.manual_seed(11)
    model, log = Net(), MetricLog()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    patterns = torch.randn(60, 4, 64)
    for step in range(1800):
        y = torch.randint(0, 60, (64,))
        x = patterns[y] + torch.randn(64, 4, 64)
        losses = nn.functional.cross_entropy(model(x), y, reduction="none")
        loss = losses.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        log.add(step, losses.tolist(), loss.item())
        if step % 120 == 119:
            print(f"step {step} loss {log.mean_loss():.4f} accuracy {evaluate(model, patterns):.3f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
