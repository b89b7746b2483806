import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 160), nn.Linear(160, 8)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x))
        return self.head(hidden), hidden


def batch(n=48):
    y = torch.randint(0, 8, (n,))
    return torch.randn(n, 128) + y.view(-1, 1) / 4, y


class MemoryCache:
    """Values by namespace, for the whole process."""
    spaces = {}

    @classmethod
    def put(cls, namespace, key, value):
        cls.spaces.setdefault(namespace, {})[key] = value

    @classmethod
    def forget(cls, namespace):
        cls.spaces.pop(namespace, None)


class Block:
    """A step of a pipeline that remembers features of the video that it is at."""

    def __init__(self):
        self.namespace = None

    def run(self, video, frame, feature):
        namespace = f"video:{video}"
        if self.namespace and self.namespace != namespace:
            MemoryCache.forget(self.namespace)
        self.namespace = namespace
        MemoryCache.put(namespace, frame, feature)

    def __del__(self):
        if self.namespace:
            MemoryCache.forget(self.namespace)


def main():
    torch.manual_seed(205)
    model = Net()
    block = Block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1000):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        block.run(step // 5, step % 5, hidden[:4].detach().clone())
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
