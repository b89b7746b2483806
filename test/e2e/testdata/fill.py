"""Grows by 8 MiB every 20 ms, until it is killed or holds 2 GiB."""
import time

kept = []
while len(kept) < 256:
    kept.append(bytearray(8 << 20))
    time.sleep(0.02)
