"""A training without PyTorch whose memory goes with its batch size: 60 MiB each. With a word among its arguments it
never asks for the policy's; it prints what it has, and from which checkpoint it goes on."""
import os
import sys

import memgauge

size = 8 if "own" in sys.argv else memgauge.policy().training.get("batch_size", 8)
print("batch_size %d" % size, flush=True)
for _ in range(60):
    batch = [bytearray(b"x") * (60 << 20) for _ in range(size)]
    memgauge.step()
    del batch
print("finished with %d" % size)
