import numpy as np
import torch
from torch import nn


class Replay:
    """Transitions in arrays that are as large as they will ever be; pages come as they are written."""

    def __init__(self, capacity, state):
        self.states = np.zeros((capacity, state), np.float32)
        self.rewards = np.zeros(capacity, np.float32)
        self.capacity, self.index, self.size = capacity, 0, 0
        self.priorities = {}

    def push(self, state, reward):
        self.states[self.index], self.rewards[self.index] = state, reward
        self.priorities[self.index] = reward
        self.index = (self.index + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, rng, n):
        pick = rng.integers(0, self.size, n)
        return torch.from_numpy(self.states[pick]), torch.from_numpy(self.rewards[pick])


class Walker:
    """A linear system with noise."""

    def __init__(self, rng, size=600):
        self.rng, self.state = rng, np.zeros(size, np.float32)
        self.weight = rng.standard_normal(size).astype(np.float32) / size ** 0.5

    def move(self):
        self.state = 0.9 * self.state + 0.4 * self.rng.standard_normal(len(self.state), dtype=np.float32)
        return self.state, float(np.tanh(self.state @ self.weight))


def main():
    torch.manual_seed(36)
    rng = np.random.default_rng(36)
    walker, replay = Walker(rng), Replay(5600, 600)
    critic = nn.Sequential(nn.Linear(600, 192), nn.ReLU(), nn.Linear(192, 192), nn.ReLU(), nn.Linear(192, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-4)
    for step in range(1200):
        for _ in range(8):
            replay.push(*walker.move())
        states, rewards = replay.sample(rng, 64)
        loss = nn.functional.mse_loss(critic(states).squeeze(-1), rewards)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.4f} size {replay.size}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
