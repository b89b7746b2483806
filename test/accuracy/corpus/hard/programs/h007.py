import torch
from torch import nn


class PrototypeNet(nn.Module):
    """Keeps the centre of each class's features, for a consistency loss."""

    def __init__(self, classes=10, dim=128):
        super().__init__()
        self.classes, self.dim = classes, dim
        self.encoder = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, dim))
        self.head = nn.Linear(dim, classes)
        self.version = 0
        self.register_buffer("centres_0", torch.zeros(classes, dim))

    def centres(self):
        return getattr(self, f"centres_{self.version}")

    @torch.no_grad()
    def update(self, features, labels):
        old = self.centres()
        one_hot = nn.functional.one_hot(labels, self.classes).float()
        mean = one_hot.T @ features / one_hot.sum(0).clamp(min=1)[:, None]
        self.version += 1
        self.register_buffer(f"centres_{self.version}", 0.9 * old + 0.1 * mean)

    def forward(self, x):
        z = self.encoder(x)
        return z, self.head(z)


def main():
    torch.manual_seed(4)
    model = PrototypeNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    means = torch.randn(10, 256)
    for step in range(1500):
        labels = torch.randint(0, 10, (64,))
        x = means[labels] + torch.randn(64, 256)
        z, logits = model(x)
        pull = (z - model.centres()[labels]).pow(2).mean()
        loss = nn.functional.cross_entropy(logits, labels) + 0.1 * pull
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.update(z.detach(), labels)
        if step % 250 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
