import collections

import numpy as np
import torch
from torch import nn


class Signals:
    """Synthetic ECG-like records, one long strip at a time."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def strip(self, n=16, length=1024):
        phase = self.rng.uniform(0, 6.28, (n, 1))
        t = np.linspace(0, 20, length)
        clean = np.sin(t + phase) + 0.3 * np.sin(7 * t + phase)
        return (clean + 0.2 * self.rng.standard_normal((n, length))).astype(np.float32), phase


class Report:
    def __init__(self):
        self.previews = collections.deque(maxlen=50)

    def add(self, strip, loss):
        self.previews.append((strip[0, :32].copy(), loss))

    def summary(self):
        return float(np.mean([p.std() for p, _ in self.previews]))


def build():
    return nn.Sequential(
        nn.Conv1d(1, 16, 9, stride=4), nn.ReLU(), nn.Conv1d(16, 32, 9, stride=4), nn.ReLU(),
        nn.AdaptiveAvgPool1d(8), nn.Flatten(), nn.Linear(256, 2),
    )


def main():
    torch.manual_seed(3)
    signals = Signals(3)
    model = build()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    report = Report()
    for step in range(1200):
        strip, phase = signals.strip()
        x = torch.from_numpy(strip).unsqueeze(1)
        target = torch.from_numpy(np.hstack([np.sin(phase), np.cos(phase)]).astype(np.float32))
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        report.add(strip, loss.item())
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f} spread {report.summary():.3f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
