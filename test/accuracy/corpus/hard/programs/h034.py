import sqlite3

import torch
from torch import nn


class History:
    """Statistics of each batch in a table, so that the curriculum can ask for the hard ones."""

    def __init__(self):
        self.db = sqlite3.connect(":memory:")
        self.db.execute("create table batch (step integer, loss real, margin blob)")

    def add(self, step, losses):
        self.db.execute("insert into batch values (?, ?, ?)", (step, losses.mean().item(), losses.numpy().tobytes()))
        self.db.execute("delete from batch where step < ?", (step - 200,))
        self.db.commit()

    def typical(self, last=200):
        row = self.db.execute(
            "select avg(loss) from (select loss from batch order by step desc limit ?)", (last,)).fetchone()
        return row[0] or 0.0


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(20, 96), nn.Linear(96, 96), nn.Linear(96, 1)

    def forward(self, x):
        return self.c(torch.tanh(self.b(torch.tanh(self.a(x))))).squeeze(-1)


def main():
    torch.manual_seed(17)
    model, history = MLP(), History()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1200):
        x = torch.rand(1024, 20)
        y = (6.28 * x[:, 0]).sin() * x[:, 1] + x[:, 2:].mean(1)
        losses = (model(x) - y).pow(2)
        weight = (losses.detach() > history.typical()).float() + 0.5
        loss = (weight * losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.add(step, losses.detach())
        if step % 150 == 0:
            print(f"step {step} loss {loss.item():.5f} typical {history.typical():.5f}")
    print(f"final loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
