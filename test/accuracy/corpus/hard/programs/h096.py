import torch
from torch import nn


class Verifier(nn.Module):
    """Tells whether two signals are of one speaker."""

    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 16, 16, stride=8), nn.ReLU(), nn.Conv1d(16, 32, 8, stride=4), nn.ReLU(),
            nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, 32))

    def forward(self, x):
        return nn.functional.normalize(self.net(x.unsqueeze(1)), dim=1)


class HardNegatives:
    """Signals that were taken for another speaker's, to be shown again."""

    def __init__(self, limit):
        self.limit, self.items = limit, []

    def collect(self, signals, similarity):
        worst = similarity.argmax().item()
        self.items.append(signals[worst].clone())

    def draw(self, n):
        if len(self.items) < n:
            return None
        return torch.stack([self.items[i] for i in torch.randint(-min(self.limit, len(self.items)), 0, (n,)).tolist()])


def speech(pitch, length=2048):
    t = torch.arange(length) / 100
    return torch.sin(pitch[:, None] * t) + 0.4 * torch.randn(len(pitch), length)


def main():
    torch.manual_seed(50)
    model, negatives = Verifier(), HardNegatives(limit=650)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1000):
        pitch = torch.rand(12) * 4 + 1
        anchor, same, other = speech(pitch), speech(pitch), speech(pitch.roll(1))
        a, b, c = model(anchor), model(same), model(other)
        loss = nn.functional.triplet_margin_loss(a, b, c, margin=0.5)
        hard = negatives.draw(12)
        if hard is not None:
            loss = loss + 0.3 * nn.functional.triplet_margin_loss(a, b, model(hard), margin=0.5)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        negatives.collect(other, (a.detach() * c.detach()).sum(1))
        if step % 125 == 0:
            print(f"step {step} loss {loss.item():.4f} hard {len(negatives.items)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
