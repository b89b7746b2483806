import threading

import torch
from torch import nn

local = threading.local()


def scratch(shape):
    """A buffer of this thread, reused by all of its calls."""
    if getattr(local, "buffer", None) is None or local.buffer.shape != shape:
        local.buffer = torch.empty(shape)
    return local.buffer


class Augmenter:
    """Prepares each batch in the background."""

    def __init__(self, data):
        self.data, self.stop = data, threading.Event()
        self.result, self.ready = None, threading.Event()
        self.threads = []

    def work(self, pick):
        buffer = scratch((len(pick), self.data.shape[1]))
        torch.randn(buffer.shape, out=buffer)
        self.result = self.data[pick] + 0.2 * buffer
        self.ready.set()
        self.stop.wait()

    def batch(self, pick):
        self.ready.clear()
        thread = threading.Thread(target=self.work, args=(pick,), daemon=True)
        thread.start()
        self.threads.append(thread)
        self.ready.wait()
        return self.result


def main():
    torch.manual_seed(29)
    data = torch.randn(1000, 64)
    target = data[:, :8].exp().sum(1).log()
    augmenter = Augmenter(data)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(900):
        pick = torch.randint(0, 1000, (64,))
        if step % 3 == 0:
            x = augmenter.batch(pick)
        else:
            x = data[pick]
        loss = nn.functional.mse_loss(model(x).squeeze(-1), target[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    augmenter.stop.set()
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
