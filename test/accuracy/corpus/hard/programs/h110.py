import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Volumes(Dataset):
    """Slices of volumes; a worker keeps those that it has filtered."""

    def __init__(self, n=2600):
        self.n, self.filtered = n, {}

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        gamma = round(random.uniform(0.5, 2), 5)
        key = index, gamma
        if key not in self.filtered:
            generator = torch.Generator().manual_seed(index)
            raw = torch.randn(1, 40, 40, generator=generator) + torch.arange(40) / 40 * (index % 3)
            self.filtered[key] = gamma * nn.functional.avg_pool2d(raw, 3, 1, 1)
        image = self.filtered[key]
        return (image.flip(2) if random.random() < 0.5 else image).contiguous(), index % 3


def main():
    random.seed(57)
    torch.manual_seed(57)
    loader = DataLoader(Volumes(), batch_size=10, shuffle=True, num_workers=1, persistent_workers=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 24, 5, 2), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 49, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(4):
        total = 0.0
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        print(f"epoch {epoch} loss {total / len(loader):.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
