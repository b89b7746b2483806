import torch
from torch import fx, nn


class Gated(nn.Module):
    def __init__(self, dim, gates):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(dim, dim) for _ in gates)
        self.gates = gates

    def forward(self, x):
        for layer, gate in zip(self.layers, self.gates):
            if gate:
                x = x + gate * torch.tanh(layer(x))
        return x


def specialise(model, gates):
    """A graph of the model for these gates: layers whose gate is closed are left out."""
    model.gates = gates
    return fx.GraphModule(model, fx.Tracer().trace(model))


class Schedule:
    """Stochastic depth; graphs of gates that were seen are kept."""

    def __init__(self, model):
        self.model = model
        self.graphs = {}

    def pick(self, rng):
        gates = [1.0 if p > 0.3 else 0.0 for p in torch.rand(4, generator=rng).tolist()]
        scale = 4 / max(1.0, sum(gates))
        return tuple(g * scale for g in gates)

    def get(self, gates, step):
        key = (gates, step)
        if key not in self.graphs:
            self.graphs[key] = specialise(self.model, list(gates))
        return self.graphs[key]


def main():
    torch.manual_seed(44)
    rng = torch.Generator().manual_seed(44)
    body, head = Gated(64, [1.0] * 4), nn.Linear(64, 8)
    optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()], lr=1e-3)
    schedule = Schedule(body)
    centres = torch.randn(8, 64)
    for step in range(700):
        y = torch.randint(0, 8, (64,))
        x = centres[y] + torch.randn(64, 64)
        graph = schedule.get(schedule.pick(rng), step // 3)
        loss = nn.functional.cross_entropy(head(graph(x)), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} graphs {len(schedule.graphs)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
