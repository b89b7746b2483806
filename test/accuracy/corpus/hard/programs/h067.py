import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self, dim=320, depth=4):
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.GELU()) for _ in range(depth))
        self.head = nn.Linear(dim, 16)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x, self.head(x)


def set_trainable(model, depth):
    """The head always; of the blocks the last ones."""
    for i, block in enumerate(model.blocks):
        block.requires_grad_(i >= len(model.blocks) - depth)


def stage(step):
    return min(4, step // 130)


def main():
    torch.manual_seed(34)
    model = Backbone()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    centres = torch.randn(16, 320)
    bank, ema = [], None
    for step in range(1000):
        if step % 130 == 0:
            set_trainable(model, stage(step))
        y = torch.randint(0, 16, (24,))
        x = centres[y] + 2.0 * torch.randn(24, 320)
        h, logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        if stage(step) == 4:
            if ema is None:
                ema = [p.detach().clone() for p in model.parameters()]
            torch._foreach_lerp_(ema, [p.detach() for p in model.parameters()], 0.01)
            bank = bank[-15:] + [h.detach()]
        if step % 100 == 0:
            print(f"step {step} stage {stage(step)} loss {loss.item():.4f} bank {len(bank)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
