import itertools

import torch
from torch import nn


def stream(seed):
    generator = torch.Generator().manual_seed(seed)
    phase = 0.0
    while True:
        t = phase + torch.arange(48) / 8
        phase += 0.37
        yield torch.sin(t).repeat(32, 1) + 0.1 * torch.randn(32, 48, generator=generator)


class Scaler:
    """Normalises batches by the mean of the first ones of the same stream."""

    def __init__(self, batches, warm_up):
        self.batches, self.warm_up = batches, warm_up
        self.mean, self.seen = 0.0, 0

    def __call__(self, x):
        if self.seen < self.warm_up:
            self.mean = (self.mean * self.seen + next(self.batches).mean()) / (self.seen + 1)
            self.seen += 1
        else:
            self.batches = None
        return x - self.mean


class Forecast(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(1, 40, batch_first=True)
        self.head = nn.Linear(40, 1)

    def forward(self, x):
        return self.head(self.rnn(x.unsqueeze(-1))[0]).squeeze(-1)


def main():
    torch.manual_seed(33)
    batches, ahead = itertools.tee(stream(33))
    scale = Scaler(ahead, warm_up=50)
    del ahead
    model = Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step, batch in enumerate(itertools.islice(batches, 1000)):
        x = scale(batch)
        loss = nn.functional.mse_loss(model(x[:, :-1]), x[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 125 == 0:
            print(f"step {step} loss {loss.item():.4f} mean {float(scale.mean):.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
