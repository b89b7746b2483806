import copy

import torch
from torch import nn


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU())
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.head(self.features(x))


def digits(n, generator, templates):
    y = torch.randint(0, 10, (n,), generator=generator)
    return templates[y] + 2.5 * torch.randn(n, 1, 28, 28, generator=generator), y


@torch.no_grad()
def validate(model, x, y):
    model.eval()
    loss = nn.functional.cross_entropy(model(x), y).item()
    model.train()
    return loss


def main():
    torch.manual_seed(18)
    generator = torch.Generator().manual_seed(18)
    templates = torch.randn(10, 1, 28, 28, generator=generator)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-4, momentum=0.9)
    held_out = digits(200, generator, templates)
    best, kept = float("inf"), []
    for epoch in range(40):
        for _ in range(22):
            x, y = digits(16, generator, templates)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        value = validate(model, *held_out)
        if value < best:
            best = value
            kept.append((value, copy.deepcopy(model.state_dict())))
            kept.sort(key=lambda item: item[0])
        if epoch % 8 == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} best {best:.4f}")
    model.load_state_dict(kept[0][1])
    print(f"final loss {loss.item():.4f} best {best:.4f}")


if __name__ == "__main__":
    main()
