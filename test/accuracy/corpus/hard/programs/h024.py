import torch
from torch import nn


class LM(nn.Module):
    def __init__(self, vocabulary=120, dim=64):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.block = nn.TransformerEncoderLayer(dim, 2, 128, dropout=0.0, batch_first=True)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
        return self.head(self.block(self.embed(tokens), src_mask=mask, is_causal=True))


def length_at(step, total, shortest=24, longest=112):
    """Curriculum: sequences grow in a line over four fifths of the run."""
    share = min(1.0, step / (0.8 * total))
    return int(shortest + share * (longest - shortest)) // 4 * 4


class Trainer:
    def __init__(self, total):
        self.total = total
        self.model = LM()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-4)
        self.history = []

    def step(self, index):
        length = length_at(index, self.total)
        start = torch.randint(0, 120, (8, 1))
        tokens = (start + torch.arange(length + 1) * 7) % 120
        logits = self.model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history.append((loss.item(), logits[:, -1].detach().clone()))
        return length


def main():
    torch.manual_seed(12)
    trainer = Trainer(total=1000)
    for index in range(trainer.total):
        length = trainer.step(index)
        if index % 100 == 0:
            print(f"step {index} length {length} loss {trainer.history[-1][0]:.4f}")
    print(f"final loss {trainer.history[-1][0]:.4f}")


if __name__ == "__main__":
    main()
