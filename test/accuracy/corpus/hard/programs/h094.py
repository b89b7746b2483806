import random

import torch
from torch import nn


class Graph:
    """A social network that people join and leave; each has a blob of raw features."""

    def __init__(self, rng):
        self.rng, self.people, self.log, self.next = rng, {}, [], 0

    def join(self):
        friends = self.rng.sample(list(self.people), min(4, len(self.people)))
        self.people[self.next] = (self.rng.randbytes(self.rng.randrange(600, 3000)), friends)
        self.next += 1

    def leave(self):
        gone = self.rng.choice(list(self.people))
        self.people.pop(gone)
        self.log = self.log[-99:] + [gone]

    def batch(self, n):
        rows = []
        for who in self.rng.choices(list(self.people), k=n):
            blob, friends = self.people[who]
            near = [self.people[f][0] for f in friends if f in self.people] or [blob]
            rows.append([blob[i] for i in range(32)] + [sum(b[i] for b in near) / len(near) for i in range(32)])
        return torch.tensor(rows) / 255


def main():
    rng = random.Random(47)
    torch.manual_seed(47)
    graph = Graph(rng)
    for _ in range(12000):
        graph.join()
    model = nn.Sequential(nn.Linear(64, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(800):
        for _ in range(4):
            graph.leave()
            graph.join()
        x = graph.batch(32)
        target = (x[:, :8].mean(1) - x[:, 32:40].mean(1)).unsqueeze(1)
        loss = nn.functional.mse_loss(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.5f} people {len(graph.people)} gone {len(graph.log)}")
    print(f"final loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
