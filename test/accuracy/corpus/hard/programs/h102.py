import collections
import random

import numpy as np
import torch
from torch import nn

Transition = collections.namedtuple("Transition", "state action reward after")


class ReplayMemory:
    def __init__(self, capacity):
        self.capacity, self.memory = capacity, []

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, n):
        return Transition(*zip(*random.sample(self.memory[-self.capacity:], n)))


class Pendulum:
    """A row of coupled pendulums; seen as positions, speeds and a picture of both."""

    def __init__(self, rng, n=20):
        self.rng, self.x, self.v = rng, rng.standard_normal(n), np.zeros(n)

    def observe(self):
        return np.outer(np.r_[self.x, 1], np.r_[self.v, 1]).astype(np.float32).ravel()

    def act(self, action):
        pull = np.roll(self.x, 1) + np.roll(self.x, -1) - 2 * self.x - np.sin(self.x)
        self.v = 0.98 * self.v + 0.05 * pull
        self.v[0] += 0.1 * (action - 1)
        self.x = self.x + 0.05 * self.v
        return -float(np.square(self.x).mean())


def main():
    random.seed(53)
    torch.manual_seed(53)
    env, memory = Pendulum(np.random.default_rng(53)), ReplayMemory(2800)
    net = nn.Sequential(nn.Linear(441, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-4)
    for step in range(1100):
        for _ in range(4):
            state = env.observe()
            with torch.no_grad():
                best = int(net(torch.from_numpy(state)).argmax())
            action = random.randrange(3) if random.random() < 0.2 else best
            memory.push(state, action, env.act(action), env.observe())
        batch = memory.sample(min(32, len(memory.memory)))
        q = net(torch.from_numpy(np.stack(batch.state)))[torch.arange(len(batch.action)), torch.tensor(batch.action)]
        with torch.no_grad():
            goal = torch.tensor(batch.reward) + 0.95 * net(torch.from_numpy(np.stack(batch.after))).amax(1)
        loss = nn.functional.smooth_l1_loss(q, goal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.5f} memory {len(memory.memory)}")
    print(f"final loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
