import torch
from torch import nn


class Metric:
    def __init__(self, name):
        self.name, self.values = name, []

    def update(self, value):
        self.values.append(value)

    def compute(self):
        return torch.stack(self.values[-100:]).float().mean().item()


class Accuracy(Metric):
    def update(self, predicted, target):
        super().update(predicted.eq(target))


class Mixer(nn.Module):
    def __init__(self, tokens=16, dim=32, classes=10):
        super().__init__()
        self.embed = nn.Linear(12, dim)
        self.token = nn.Sequential(nn.Linear(tokens, 32), nn.GELU(), nn.Linear(32, tokens))
        self.channel = nn.Sequential(nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim))
        self.head = nn.Linear(dim, classes)

    def forward(self, x):
        h = self.embed(x)
        h = h + self.token(h.transpose(1, 2)).transpose(1, 2)
        h = h + self.channel(h)
        return self.head(h)


def main():
    torch.manual_seed(25)
    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    centres = torch.randn(10, 12)
    for epoch in range(12):
        accuracy = Accuracy(f"epoch {epoch}")
        for _ in range(100):
            y = torch.randint(0, 10, (192, 16))
            x = centres[y] + 0.7 * torch.randn(192, 16, 12)
            logits = model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), y.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            accuracy.update(logits.argmax(-1), y)
        if epoch % 2 == 0:
            print(f"{accuracy.name} loss {loss.item():.4f} accuracy {accuracy.compute():.3f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
