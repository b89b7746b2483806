import torch


def parameters(sizes, generator):
    out = []
    for a, b in zip(sizes, sizes[1:]):
        out.append((torch.randn(a, b, generator=generator) / a ** 0.5).requires_grad_())
        out.append(torch.zeros(b, requires_grad=True))
    return out


def forward(weights, x):
    for i in range(0, len(weights) - 2, 2):
        x = torch.tanh(x @ weights[i] + weights[i + 1])
    return x @ weights[-2] + weights[-1]


class Trajectory:
    """Where the weights have been: for a plot of the path through their space."""

    def __init__(self):
        self.points = []

    def add(self, weights):
        self.points.append(torch.cat([w.detach().flatten()[:3000] for w in weights]))

    def length(self):
        return sum((a - b).norm().item() for a, b in zip(self.points[-20:], self.points[-19:]))


def main():
    generator = torch.Generator().manual_seed(31)
    weights = parameters([24, 160, 160, 1], generator)
    target = torch.randn(24, 1, generator=generator)
    path, lr = Trajectory(), 0.05
    for step in range(5000):
        x = torch.randn(128, 24, generator=generator)
        loss = (forward(weights, x) - torch.sin(x @ target)).pow(2).mean()
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for w, g in zip(weights, gradients):
                w -= lr * g
        if step % 2 == 0:
            path.add(weights)
        if step % 1000 == 0:
            print(f"step {step} loss {loss.item():.4f} length {path.length():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
