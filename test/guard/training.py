"""A training of a given shape, with a checkpoint hook: what `go run ./test/guard` starts. Its memory, in MiB over what
it has at first: leak (a line), leaps (an evaluation that keeps what it made), noisy, teeth (a sawtooth), warm (up to a
level), peaks (evaluations that give back what they took)."""
import math
import os
import random
import sys
import time

import memgauge

shape, room, seed, path = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
rng = random.Random(seed)
MIB = bytearray(b"x") * (1 << 20)
held = []


def hold(mib):
    """Holds so many MiB from now on."""
    while len(held) < mib:
        held.append(bytes(MIB))
    del held[max(0, int(mib)):]


def save():
    with open(path, "w") as f:
        f.write("step %d\n" % step)


pace, steps = room / rng.randrange(60, 160), rng.randrange(250, 350)
top, length, every = room * rng.uniform(.75, .9), rng.randrange(40, 90), rng.randrange(25, 40)
with memgauge.guard(checkpoint=save):
    for step in range(1, steps + 1):
        time.sleep(rng.uniform(.004, .008))
        if shape == "leak":
            hold(pace * step)
        elif shape == "noisy":
            hold(pace * step + rng.uniform(0, 8))
        elif shape == "leaps":
            hold(step // every * room / 5)
        elif shape == "teeth":
            hold(top * (step % length) / length)
        elif shape == "warm":
            hold(top * (1 - math.exp(-step / length * 2)))
        elif shape == "peaks":
            hold(room * .3)
            if step % every == 0:
                hold(top)
                hold(room * .3)
        memgauge.step()
print("finished")
