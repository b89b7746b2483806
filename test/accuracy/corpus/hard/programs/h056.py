import logging
import random

import torch
from torch import nn

logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")


class Episode:
    """One rollout of a cart that must be kept near the middle."""

    def __init__(self, index, rng):
        self.log = logging.getLogger("training.rollouts.worker0")
        self.log.setLevel(logging.INFO if index % 50 == 0 else logging.WARNING)
        self.cart_log, self.policy_log, self.reward_log = map(self.log.getChild, ("cart", "policy", "reward"))
        self.position, self.speed, self.rng = rng.uniform(-1, 1), 0.0, rng

    def run(self, policy, length=24):
        states, actions, reward = [], [], 0.0
        for _ in range(length):
            state = torch.tensor([self.position, self.speed])
            with torch.no_grad():
                push = policy(state).item() + self.rng.gauss(0, 0.3)
            self.speed = 0.9 * self.speed + 0.1 * push
            self.position += self.speed
            if abs(self.position) > 3:
                self.cart_log.debug("far off: %.2f", self.position)
            reward -= self.position ** 2
            states.append(state)
            actions.append(push)
        self.policy_log.debug("pushes %s", actions)
        self.reward_log.info("%.3f", reward)
        return torch.stack(states), torch.tensor(actions), reward


def main():
    rng = random.Random(28)
    torch.manual_seed(28)
    policy = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    baseline = None
    for index in range(1600):
        states, actions, reward = Episode(index, rng).run(policy)
        baseline = reward if baseline is None else 0.95 * baseline + 0.05 * reward
        advantage = max(-2.0, min(2.0, (reward - baseline) / (abs(baseline) + 1e-3)))
        loss = advantage * (policy(states).squeeze(-1) - actions).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"final loss {loss.item():.4f} mean reward {baseline:.3f}")


if __name__ == "__main__":
    main()
