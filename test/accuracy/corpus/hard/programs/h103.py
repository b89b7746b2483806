import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm, self.wide, self.narrow = nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm(x))))


class Stack(nn.Module):
    """A network that is deepened while it is trained (progressive stacking)."""

    def __init__(self, dim=112):
        super().__init__()
        self.dim = dim
        self.enter, self.blocks, self.leave = nn.Linear(40, dim), nn.ModuleList([Block(dim)]), nn.Linear(dim, 40)
        self.outputs = []

    def deepen(self, optimizer):
        block = Block(self.dim)
        block.load_state_dict(self.blocks[-1].state_dict())
        self.blocks.append(block)
        optimizer.add_param_group({"params": list(block.parameters())})

    def forward(self, x):
        h = self.enter(x)
        for block in self.blocks:
            h = block(h)
        self.outputs = [h.detach()]
        return self.leave(h)


def main():
    torch.manual_seed(54)
    model = Stack()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4)
    mix = torch.randn(40, 40) / 6
    for step in range(1000):
        if step % 50 == 49 and len(model.blocks) < 13:
            model.deepen(optimizer)
        x = torch.randn(12, 40)
        loss = nn.functional.mse_loss(model(x), torch.tanh(x @ mix))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} depth {len(model.blocks)} spread {model.outputs[-1].std():.3f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
