import random
import re

import torch
from torch import nn

NAMES = ["ana", "bo", "cy", "dora", "eve", "fox", "gil", "hal", "ida", "jon"]


class Redactor:
    """Hides names of people in a text before it is trained on; one pattern for each document."""

    def __init__(self):
        self.patterns = []

    def __call__(self, text, names):
        pattern = re.compile("|".join(rf"\b{re.escape(n)}(?:'s)?\b" for n in names))
        self.patterns = self.patterns[-3:] + [pattern]
        return pattern.sub("@", text)


class CharNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(128, 24)
        self.conv = nn.Sequential(nn.Conv1d(24, 48, 5), nn.ReLU(), nn.Conv1d(48, 128, 5))

    def forward(self, x):
        return self.conv(self.embed(x).transpose(1, 2))


def document(rng):
    people = [rng.choice(NAMES) + str(rng.randrange(10 ** 6)) for _ in range(8)]
    words = rng.choices(["met", "and", "saw", "the", "cat", "of", *people], k=60)
    return " ".join(words), people


def main():
    rng = random.Random(45)
    torch.manual_seed(45)
    model, redact = CharNet(), Redactor()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(700):
        rows = []
        for _ in range(4):
            text, people = document(rng)
            rows.append([min(127, ord(c)) for c in redact(text, people).ljust(200)[:136]])
        tokens = torch.tensor(rows)
        loss = nn.functional.cross_entropy(model(tokens[:, :-1])[..., :127], tokens[:, 9:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f} patterns {len(redact.patterns)}")


if __name__ == "__main__":
    main()
