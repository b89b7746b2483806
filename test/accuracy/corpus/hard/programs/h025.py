import concurrent.futures

import torch
from torch import nn


def augment(batch, seed):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(batch.shape, generator=generator)
    flip = torch.rand(len(batch), 1, generator=generator) < 0.5
    return torch.where(flip, batch.flip(1), batch) + 0.1 * noise


class Prefetcher:
    """Prepares the next batch in a thread while the step runs."""

    def __init__(self, data, batch=64):
        self.data, self.batch = data, batch
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.submitted = []
        self.request()

    def request(self):
        index = len(self.submitted)
        pick = torch.randint(0, len(self.data), (self.batch,))
        self.submitted.append((pick, self.pool.submit(augment, self.data[pick], index)))

    def next(self):
        pick, future = self.submitted[-1]
        self.request()
        return pick, future.result()

    def close(self):
        self.pool.shutdown()


def main():
    torch.manual_seed(13)
    data = torch.randn(2000, 256)
    labels = (data[:, ::2] - data[:, 1::2]).sum(1).gt(0).long()
    model = nn.Sequential(
        nn.Linear(256, 384), nn.ReLU(), nn.Dropout(0.1), nn.Linear(384, 384), nn.ReLU(), nn.Linear(384, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = Prefetcher(data)
    for step in range(1000):
        pick, x = loader.next()
        loss = nn.functional.cross_entropy(model(x), labels[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    loader.close()
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
