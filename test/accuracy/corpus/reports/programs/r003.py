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


class Trainer:
    """Collects what each step returns, for the epoch's summary."""

    def __init__(self, model):
        self.model, self.outputs = model, []

    def training_step(self, x, y):
        out, _ = self.model(x)
        loss = nn.functional.cross_entropy(out, y)
        self.outputs.append({"loss": loss, "count": len(y)})
        return loss

    def epoch_end(self):
        mean = sum(o["loss"].item() for o in self.outputs[-100:]) / 100
        print(f"epoch loss {mean:.4f}")


def main():
    torch.manual_seed(201)
    model = Net()
    trainer = Trainer(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(800):
        x, y = batch()
        loss = trainer.training_step(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            trainer.epoch_end()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
