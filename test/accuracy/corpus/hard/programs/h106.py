import copy
import random

import torch
from torch import nn


class Member:
    def __init__(self, lr):
        self.model = nn.Sequential(nn.Linear(60, 176), nn.ReLU(), nn.Linear(176, 176), nn.ReLU(), nn.Linear(176, 5))
        self.lr, self.score = lr, None


class Population:
    """Snapshots of a model, of which the better ones seed restarts (population based training, one at a time)."""

    def __init__(self, size, rng):
        self.size, self.rng, self.members = size, rng, []

    def add(self, member, score):
        kept = copy.deepcopy(member)
        kept.score = score
        self.members.append(kept)
        self.members.sort(key=lambda m: m.score)

    def restart(self, member):
        if self.rng.random() < 0.2:
            source = self.rng.choice(self.members[:4])
            member.model.load_state_dict(source.model.state_dict())
            member.lr = source.lr * self.rng.choice([0.8, 1.25])


def main():
    rng = random.Random(55)
    torch.manual_seed(55)
    member, population = Member(0.03), Population(24, rng)
    directions = torch.randn(5, 60)
    for step in range(1200):
        x = torch.randn(96, 60)
        y = (x @ directions.T).argmax(1)
        optimizer = torch.optim.SGD(member.model.parameters(), lr=member.lr)
        loss = nn.functional.cross_entropy(member.model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 30 == 29:
            population.add(member, loss.item())
            population.restart(member)
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f} members {len(population.members)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
