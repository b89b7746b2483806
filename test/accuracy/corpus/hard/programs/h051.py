import gc

import torch
from torch import nn


class Node:
    def __init__(self, parent, features):
        self.parent, self.features, self.children = parent, features, []
        if parent is not None:
            parent.children.append(self)


def tree(depth, width, dim):
    """A random parse tree; children know their parent."""
    root = Node(None, torch.randn(dim))
    level = [root]
    for _ in range(depth):
        level = [Node(parent, 0.8 * parent.features + 0.6 * torch.randn(dim)) for parent in level for _ in range(width)]
    return root, level


class Composer(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.up = nn.Sequential(nn.Linear(dim, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, leaves, width):
        h = torch.stack([leaf.features for leaf in leaves])
        while len(h) > 1:
            h = self.up(h).view(-1, width, h.shape[-1]).mean(1)
        return h[0]


def main():
    torch.manual_seed(26)
    gc.set_threshold(2000, 20, 100)
    model = Composer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1100):
        loss = 0.0
        for _ in range(2):
            root, leaves = tree(3, 3, 64)
            loss = loss + nn.functional.mse_loss(model(leaves, 3), root.features) / 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            gc.freeze()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
