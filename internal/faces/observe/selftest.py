"""Leaks on purpose, for `memgauge guard test`: keeps some memory at every step until it is told to end."""
import sys
import time

import memgauge

EACH, STEPS = int(sys.argv[1]), int(sys.argv[2])    # bytes a step, steps
kept = []

for step in range(STEPS):
    kept.append(bytearray(b"x") * EACH)
    time.sleep(0.008)
    memgauge.step()
