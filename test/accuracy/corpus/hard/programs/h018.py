import torch
from torch import nn


def crops(image, size, generator):
    """Yields random crops of one image for as long as anyone asks."""
    padded = nn.functional.pad(image, (4, 4, 4, 4), mode="reflect")
    while True:
        top, left = torch.randint(0, 8, (2,), generator=generator).tolist()
        yield padded[:, top:top + size, left:left + size]


class Views:
    def __init__(self, per_image=2):
        self.per_image = per_image
        self.generator = torch.Generator().manual_seed(9)

    def of(self, images):
        rows = []
        for image in images:
            source = crops(image, image.shape[-1], self.generator)
            rows.append(torch.stack([next(source) for _ in range(self.per_image)]))
            source.close()
        return torch.stack(rows).transpose(0, 1)


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 32),
        )

    def forward(self, x):
        return nn.functional.normalize(self.net(x), dim=1)


def main():
    torch.manual_seed(9)
    model, views = Encoder(), Views()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    pool = torch.randn(256, 3, 24, 24)
    for step in range(900):
        images = pool[torch.randint(0, 256, (8,))]
        a, b = views.of(images)
        logits = model(a) @ model(b).T / 0.2
        loss = nn.functional.cross_entropy(logits, torch.arange(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
