"""A decoder of the shape that Stanford's course CS336 profiles in its second assignment ("2.7B"): RMSNorm, rotary
positions, SwiGLU, attention without a fused kernel, and an AdamW of its own. Public snapshots of its steps exist.

    language.py CONTEXT [--forward] [--mixed]
"""
import math
import sys

import torch
from torch import nn

CONTEXT, FORWARD, MIXED = int(sys.argv[1]), "--forward" in sys.argv, "--mixed" in sys.argv
BATCH, VOCABULARY, WIDTH, INNER, LAYERS, HEADS = 4, 10000, 2560, 10240, 32, 32


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False, device="cuda")


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(WIDTH, device="cuda"))

    def forward(self, x):
        x = x.to(torch.float32)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.out = (linear(WIDTH, WIDTH) for _ in range(4))
        angle = torch.arange(CONTEXT, device="cuda")[:, None] / 10000 ** (
            torch.arange(0, WIDTH // HEADS, 2, device="cuda") / (WIDTH // HEADS))
        self.register_buffer("cos", angle.cos(), persistent=False)
        self.register_buffer("sin", angle.sin(), persistent=False)

    def rotate(self, x):
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * self.cos - odd * self.sin, even * self.sin + odd * self.cos), -1).flatten(-2)

    def forward(self, x):
        def heads(y):
            return y.view(y.shape[0], y.shape[1], HEADS, -1).transpose(1, 2)
        q, k, v = self.rotate(heads(self.q(x))), self.rotate(heads(self.k(x))), heads(self.v(x))
        mask = torch.tril(torch.ones(CONTEXT, CONTEXT, dtype=torch.bool, device="cuda"))
        scores = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).masked_fill(~mask, float("-inf"))
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2, self.attention = Norm(), Norm(), Attention()
        self.w1, self.w2, self.w3 = linear(WIDTH, INNER), linear(INNER, WIDTH), linear(WIDTH, INNER)

    def forward(self, x):
        x = x + self.attention(self.n1(x))
        y = self.n2(x)
        return x + self.w2(nn.functional.silu(self.w1(y)) * self.w3(y))


class Adam(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                m, v, g = state["m"], state["v"], p.grad
                m.mul_(0.9).add_(g, alpha=0.1)
                v.mul_(0.99).add_(g * g, alpha=0.01)
                p.sub_(1e-3 * m / (torch.sqrt(v) + 1e-8))


embedding = nn.Embedding(VOCABULARY, WIDTH, device="cuda")
blocks = nn.ModuleList(Block() for _ in range(LAYERS))
norm, head = Norm(), linear(WIDTH, VOCABULARY)
optimizer = Adam([p for m in (embedding, blocks, norm, head) for p in m.parameters()])
tokens = torch.randint(VOCABULARY, (BATCH, CONTEXT), device="cuda")
for step in range(3):
    with torch.autocast("cuda", torch.bfloat16, enabled=MIXED):
        x = embedding(tokens)
        for block in blocks:
            x = block(x)
        logits = head(norm(x))
    if FORWARD:
        continue
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
