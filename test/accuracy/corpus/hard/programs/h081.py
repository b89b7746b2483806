import contextlib

import torch
from torch import nn


class Frozen:
    """Swaps a parameter for a perturbed copy (sharpness-aware training) and puts it back."""

    def __init__(self, parameter, radius):
        self.parameter, self.radius = parameter, radius

    def __enter__(self):
        self.saved = self.parameter.data.clone()
        if self.parameter.grad is not None:
            self.parameter.data.add_(self.parameter.grad, alpha=self.radius)
        return self

    def __exit__(self, *error):
        self.parameter.data.copy_(self.saved)
        return False


def sharp_step(model, optimizer, x, y, stack):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    swapped = stack.enter_context(Frozen(model[0].weight, 0.05))
    worse = nn.functional.cross_entropy(model(x), y)
    swapped.__exit__()
    worse.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(41)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 9))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    centres = torch.randn(9, 64)
    with contextlib.ExitStack() as stack:
        for step in range(900):
            y = torch.randint(0, 9, (64,))
            x = centres[y] + torch.randn(64, 64)
            loss = sharp_step(model, optimizer, x, y, stack)
            if step % 150 == 0:
                print(f"step {step} loss {loss:.4f}")
        stack.pop_all()
    print(f"final loss {loss:.4f}")


if __name__ == "__main__":
    main()
