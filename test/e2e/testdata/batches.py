"""A training without PyTorch whose memory goes with its batch size: 60 MiB each. With a word among its arguments it
never asks for the policy's."""
import os
import sys
import time

import memgauge

size = 8 if "own" in sys.argv else memgauge.policy().training.get("batch_size", 8)
print("batch_size %d" % size, flush=True)
while not os.path.exists(os.environ["MEMGAUGE_RUNTIME"] + "/api.sock"):
    time.sleep(0.01)        # a training's imports take longer than the collector needs to come
time.sleep(1.5)             # … and to look at the cgroup
for _ in range(60):
    batch = [bytearray(b"x") * (60 << 20) for _ in range(size)]
    memgauge.step()
    del batch
print("finished with %d" % size)
