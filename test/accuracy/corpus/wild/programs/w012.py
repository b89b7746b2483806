import ctypes

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(256, 192), nn.Linear(192, 10)

    def forward(self, x):
        hidden = torch.relu(self.hidden(x))
        return self.head(hidden), hidden


def batch(step, n=64):
    y = torch.randint(0, 10, (n,))
    return torch.randn(n, 256) + y.view(-1, 1) / 5, y


libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]


class Node:
    def __init__(self, parent):
        self.parent, self.children = parent, []
        if parent is not None:
            parent.children.append(self)


def parse():
    """A tree with links both ways."""
    root = Node(None)
    for _ in range(6):
        Node(root)
    return root


def native_filter(rows):
    size = 4 * rows.numel()
    block = libc.malloc(size)
    ctypes.memset(block, 1, size)
    first = ctypes.string_at(block, 4)
    libc.free(ctypes.c_void_p(block))
    return first


def main():
    torch.manual_seed(112)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1000):
        x, y = batch(step)
        tree = parse()
        native_filter(x[:16])
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
