import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 160), nn.Linear(160, 8)

    def forward(self, x):
        hidden = torch.tanh(self.hidden(x))
        return self.head(hidden), hidden


def batch(n=48):
    y = torch.randint(0, 8, (n,))
    return torch.randn(n, 128) + y.view(-1, 1) / 4, y


class Rollout:
    """What a policy did since its last update."""

    def __init__(self):
        self.states, self.actions, self.rewards, self.values = [], [], [], []

    def add(self, state, action, reward, value):
        self.states.append(state)
        self.actions.append(action)
        self.rewards.append(reward)
        self.values.append(value)

    def clear(self):
        del self.states[:]
        del self.actions[:]
        del self.rewards[:]
        del self.values[:]


def main():
    torch.manual_seed(209)
    model = Net()
    rollout = Rollout()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for step in range(1000):
        x, y = batch()
        out, hidden = model(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rollout.add(x[0].clone(), out[0].argmax().item(), -loss.item(), hidden[:12].detach().clone())
        if step % 25 == 24:
            rollout.clear()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
