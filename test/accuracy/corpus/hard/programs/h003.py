import functools
import math
import random

import torch
from torch import nn


@functools.lru_cache(maxsize=400)
def rotary(length, base):
    """Rotary tables; the base is scaled with the context (NTK-aware)."""
    inverse = base ** (-torch.arange(0, 32, 2) / 32)
    angles = torch.arange(length)[:, None] * inverse
    return angles.cos(), angles.sin()


class Attention(nn.Module):
    def __init__(self, dim=64, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def rotate(self, x, cos, sin):
        a, b = x[..., ::2], x[..., 1::2]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(self, x, base):
        n, t, d = x.shape
        q, k, v = self.qkv(x).view(n, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        cos, sin = rotary(t, base)
        q, k = self.rotate(q, cos, sin), self.rotate(k, cos, sin)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, t, d))


class Model(nn.Module):
    def __init__(self, vocabulary=200, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.attention = Attention(dim)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, tokens, base):
        x = self.embed(tokens)
        return self.head(self.norm(x + self.attention(x, base)))


def main():
    random.seed(2)
    torch.manual_seed(2)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(900):
        tokens = torch.randint(0, 200, (8, 96)).sort(1).values
        base = 10000.0 * math.exp(random.uniform(0, 2))
        loss = nn.functional.cross_entropy(model(tokens[:, :-1], base).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
