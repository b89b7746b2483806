import io
import struct

import torch
from torch import nn


class Recorder:
    """Writes frames of figures to sinks: callables that take bytes."""

    def __init__(self):
        self.sinks = []

    def open(self):
        sink = io.BytesIO()
        self.sinks.append(sink.write)
        return sink

    def frame(self, values):
        block = struct.pack(f"<{len(values)}f", *values)
        self.sinks[-1](block)
        return len(block)


class Energy(nn.Module):
    def __init__(self, dim=48):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dim, 160), nn.Softplus(), nn.Linear(160, 160), nn.Softplus(), nn.Linear(160, 1))

    def forward(self, x):
        return self.net(x).squeeze(-1)


def langevin(model, x, steps=2, size=0.05):
    for _ in range(steps):
        x = x.detach().requires_grad_()
        gradient, = torch.autograd.grad(model(x).sum(), x)
        x = x - size * gradient + (2 * size) ** 0.5 * 0.1 * torch.randn_like(x)
    return x.detach()


def main():
    torch.manual_seed(38)
    model, recorder = Energy(), Recorder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    mix = torch.randn(6, 48)
    for step in range(900):
        if step % 10 == 0:
            sink = recorder.open()
        data = torch.randn(64, 6) @ mix / 2.4
        fake = langevin(model, torch.randn(64, 48))
        real_energy, fake_energy = model(data), model(fake)
        loss = real_energy.mean() - fake_energy.mean() + 0.05 * (real_energy ** 2 + fake_energy ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recorder.frame(fake[:48].flatten().tolist())
        if step % 10 == 9 and step % 150 == 149:
            print(f"step {step} loss {loss.item():.4f} written {sink.tell()}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
