import random
import zlib

import torch
from torch import nn

WORDS = [("".join(random.Random(i).choices("abcdefghijklmnop", k=5))) for i in range(400)]


class Document:
    """A text that is stored deflated and read a piece at a time."""

    def __init__(self, text):
        self.raw = zlib.compress(text.encode(), 1)
        self.reader = None
        self.offset = 0

    def read(self, n):
        if self.reader is None:
            self.reader = zlib.decompressobj()
            self.tail = self.raw
        out = self.reader.decompress(self.tail, n)
        self.tail = self.reader.unconsumed_tail
        return out


class Stream:
    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.open = []

    def next_document(self):
        document = Document(" ".join(self.rng.choices(WORDS, k=600)))
        self.open.append(document)
        return document

    def batch(self, n=8, length=64):
        rows = []
        for i in range(n):
            document = self.next_document() if i == 0 else self.open[-1]
            rows.append(list(document.read(length + 1).ljust(length + 1))[:length + 1])
        return torch.tensor(rows)


class CharModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(256, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.head = nn.Linear(48, 256)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def main():
    torch.manual_seed(6)
    stream, model = Stream(6), CharModel()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(700):
        tokens = stream.batch()
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step} loss {loss.item():.4f}")
    print(f"final loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
