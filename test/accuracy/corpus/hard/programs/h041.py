import collections
import random

import torch
from torch import nn

SYLLABLES = ["ka", "to", "mi", "ren", "sol", "bar", "di", "nu", "pe", "qua", "li", "os"]


def corpus(seed):
    """Words by a law like Zipf's: new ones come ever more seldom."""
    rng = random.Random(seed)
    while True:
        rank = int(1.0 / (1.0 - 0.9997 * rng.random()) ** 0.9)
        word, state = [], rank
        for _ in range(3 + rank % 2):
            state = state * 1103515245 + 12345 & 0x7FFFFFFF
            word.append(SYLLABLES[state >> 8 % len(SYLLABLES) & 7])
        yield "".join(word) + str(rank)


class Vocabulary:
    def __init__(self):
        self.index = {}
        self.counts = collections.Counter()
        self.vectors = {}

    def encode(self, word):
        if word not in self.index:
            self.index[word] = len(self.index)
            self.vectors[word] = torch.randn(256)
        self.counts[word] += 1
        return self.vectors[word]


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(256, 64, batch_first=True)
        self.head = nn.Linear(64, 256)

    def forward(self, x):
        return self.head(self.rnn(x)[0])


def main():
    torch.manual_seed(21)
    words, vocabulary, model = corpus(21), Vocabulary(), Scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(900):
        text = torch.stack([vocabulary.encode(next(words)) for _ in range(8 * 17)]).view(8, 17, 256)
        loss = 1 - nn.functional.cosine_similarity(model(text[:, :-1]), text[:, 1:], dim=-1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f} words {len(vocabulary.index)}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
