import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.enter = nn.Conv2d(1, width, 3, padding=1)
        self.down = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.leave = nn.Conv2d(width, 1, 3, padding=1)

    def forward(self, x):
        a = nn.functional.relu(self.enter(x))
        b = nn.functional.relu(self.down(a))
        return self.leave(a + self.up(b))


def shape_at(step):
    """Progressive resizing: size and batch grow in six stages."""
    stage = min(5, step // 120)
    return 2 + stage // 2, 16 + 6 * stage


def texture(n, size):
    coarse = torch.randn(n, 1, size // 2, size // 2)
    return torch.tanh(nn.functional.interpolate(coarse, scale_factor=2, mode="bilinear", align_corners=False))


def main():
    torch.manual_seed(39)
    model = Unet()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    gallery = []
    for step in range(1100):
        n, size = shape_at(step)
        clean = texture(n, size)
        noisy = clean + 0.3 * torch.randn_like(clean)
        restored = model(noisy)
        loss = nn.functional.mse_loss(restored, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            gallery.append(restored.detach()[0])
        if step % 120 == 0:
            print(f"step {step} batch {n} size {size} loss {loss.item():.4f} gallery {len(gallery)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
