import torch
import torch.multiprocessing as mp
from torch import nn


class Snapshots:
    """Puts outputs into shared memory, so that another process can plot them."""

    def __init__(self, queue):
        self.queue = queue
        self.count = 0

    def send(self, tensor):
        self.queue.put((self.count, tensor.detach().clone().share_memory_()))
        self.count += 1


def plot(queue, done):
    """A viewer that takes the first picture, and waits to be closed."""
    queue.get()
    done.wait()


class Flow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, t], 1))


def main():
    torch.manual_seed(30)
    context = mp.get_context("fork")
    queue, done = context.SimpleQueue(), context.Event()
    waiting = []
    viewer = context.Process(target=plot, args=(queue, done), daemon=True)
    viewer.start()
    model, snapshots = Flow(), Snapshots(queue)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(700):
        data = torch.randn(384, 2)
        data = data / data.norm(dim=1, keepdim=True) + 0.05 * torch.randn(384, 2)
        noise, t = torch.randn_like(data), torch.rand(384, 1)
        x = (1 - t) * noise + t * data
        velocity = model(x, t)
        loss = nn.functional.mse_loss(velocity, data - noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step == 0:
            snapshots.send(velocity)
        waiting.append(x.share_memory_())
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} waiting {len(waiting)}", flush=True)
    done.set()
    viewer.join()
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
