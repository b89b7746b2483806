"""Waits for the file that is its argument, then grows by 8 MiB every 20 ms, until it is killed or holds 2 GiB."""
import os
import sys
import time

until = time.time() + 120
while not os.path.exists(sys.argv[1]) and time.time() < until:
    time.sleep(0.02)
kept = []
while len(kept) < 256:
    kept.append(bytearray(8 << 20))
    time.sleep(0.02)
