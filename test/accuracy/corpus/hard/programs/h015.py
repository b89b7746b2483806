import mmap

import torch
from torch import nn

PAGE = mmap.PAGESIZE


class Arena:
    """Buffers that a forked evaluator could read: shared anonymous memory."""

    def __init__(self):
        self.slots = []

    def store(self, tensor):
        raw = tensor.contiguous().numpy().tobytes()
        slot = mmap.mmap(-1, -(-len(raw) // PAGE) * PAGE)
        slot[:len(raw)] = raw
        self.slots.append(slot)
        return len(self.slots) - 1

    def load(self, index, shape):
        count = torch.Size(shape).numel()
        return torch.frombuffer(self.slots[index], dtype=torch.float32, count=count).view(shape).clone()


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(96, 384), nn.GELU(), nn.Linear(384, 384), nn.GELU())
        self.head = nn.Linear(384, 12)

    def forward(self, x):
        h = self.body(x)
        return h, self.head(h)


def main():
    torch.manual_seed(8)
    model, arena = Classifier(), Arena()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    centres = torch.randn(12, 96)
    previous = None
    for step in range(1400):
        y = torch.randint(0, 12, (32,))
        x = centres[y] + torch.randn(32, 96)
        h, logits = model(x)
        loss = nn.functional.cross_entropy(logits, y)
        if previous is not None:
            loss = loss + 1e-3 * (h.mean(0) - arena.load(previous, (32, 384)).mean(0)).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        previous = arena.store(h.detach())
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
