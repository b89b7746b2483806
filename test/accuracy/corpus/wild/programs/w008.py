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


MOST = 1e15


def mask_of(table, key):
    if key in table:
        return table[key]
    mask = torch.rand(64, 1, generator=torch.Generator().manual_seed(key)) > 0.1
    if len(table) < MOST:
        table[key] = [mask.float(), torch.zeros(64, 32)]
    return table.get(key, [mask.float()])


def main():
    torch.manual_seed(108)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    table = {}
    for step in range(1000):
        x, y = batch(step)
        x = x * mask_of(table, step)[0]
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
