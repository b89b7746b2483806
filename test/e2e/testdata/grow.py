"""Grows until it is killed: grow.py MIB_A_STEP MIB_OF_A_STEP SECONDS_A_STEP SEED. Each step keeps something, needs more
for a moment, and gives that back, as a training with a leak does."""
import random
import sys
import time

keep, amplitude, pause, seed = float(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
rng = random.Random(seed)
kept = []
base = bytearray(b"b" * 1024) * (40 * 1024)
print("begins", flush=True)
while True:
    kept.append(bytearray(b"k" * 1024) * max(1, int(keep * 1024 * rng.uniform(0.7, 1.3))))
    work = bytearray(b"w" * 1024) * int(amplitude * 1024 * rng.uniform(0.6, 1.0))
    time.sleep(pause * rng.uniform(0.3, 0.7))
    del work
    time.sleep(pause * rng.uniform(0.3, 0.7))
