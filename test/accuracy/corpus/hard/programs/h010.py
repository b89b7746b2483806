import torch
from torch import nn


class State:
    """Result of one round of fitting, with the way back to the one before it."""

    def __init__(self, step, loss, gradient, prev):
        self.step, self.loss, self.gradient, self.prev = step, loss, gradient, prev


def flat_gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def agreement(state):
    if state is None or state.prev is None:
        return 0.0
    return nn.functional.cosine_similarity(state.gradient, state.prev.gradient, dim=0).item()


def batches(total):
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(48, 1, generator=generator)
    for _ in range(total):
        x = torch.randn(256, 48, generator=generator)
        yield x, torch.tanh(x @ weight) + 0.05 * torch.randn(256, 1, generator=generator)


def main():
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(48, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    state, lr = None, 0.05
    for step, (x, y) in enumerate(batches(1300)):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        state = State(step, loss.item(), flat_gradient(model), state)
        if state.prev is not None:
            state.prev.prev = None
        lr = min(0.1, lr * 1.02) if agreement(state) > 0 else max(0.005, lr * 0.98)
        optimizer.param_groups[0]["lr"] = lr
        if step % 200 == 0:
            print(f"step {step} loss {state.loss:.4f} lr {lr:.4f}")
    print(f"final loss {state.loss:.4f}")


if __name__ == "__main__":
    main()
