"""Trains a small classifier and leaks on purpose, as real programs do.

The mistake: validation runs without torch.no_grad() and the losses are kept as they are. Each of them holds its graph,
and the graph holds the hidden activations of the validation batch, 2 MiB. Training itself is clean: its activations (56
MiB) come and go within each step.

    python examples/leak.py [STEPS]
"""
import sys

import torch
from torch import nn

INPUTS, HIDDEN, CLASSES = 32, 2048, 3
BATCH, HELD_OUT = 7168, 256

# What one kept loss keeps: the hidden activations (256 x 2048 floats) and the log-probabilities (256 x 3 floats).
LEAK_PER_STEP = 4 * HELD_OUT * (HIDDEN + CLASSES)


def make_batch(size, generator):
    """Points around three centres."""
    labels = torch.randint(CLASSES, (size,), generator=generator)
    centres = torch.eye(CLASSES, INPUTS) * 4
    return centres[labels] + torch.randn(size, INPUTS, generator=generator), labels


steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
generator = torch.Generator().manual_seed(0)
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(INPUTS, HIDDEN), nn.ReLU(inplace=True), nn.Linear(HIDDEN, CLASSES))
optimizer = torch.optim.SGD(model.parameters(), lr=0.005)
loss_fn = nn.CrossEntropyLoss()
batches = [make_batch(BATCH, generator) for _ in range(20)]
held_out, held_out_labels = make_batch(HELD_OUT, generator)
all_losses = []

print("training %d steps; each leaks %.3f MiB" % (steps, LEAK_PER_STEP / 2**20), flush=True)
for step in range(1, steps + 1):
    inputs, labels = batches[step % len(batches)]
    loss = loss_fn(model(inputs), labels)
    optimizer.zero_grad(set_to_none=False)  # freed gradients would leave holes beside what leaks, and blur its size
    loss.backward()
    optimizer.step()

    validation_loss = loss_fn(model(held_out), held_out_labels)  # the mistake: no torch.no_grad() …
    all_losses.append(validation_loss)  # … and no .item()
    if step % 50 == 0:
        print("step %d: loss %.3f, validation %.3f" % (step, loss.item(), validation_loss.item()), flush=True)
