"""Waits; for a rival that has no torch to look at. Argument: file that says "ready" with our pid."""
import os
import sys
import time

time.sleep(1)
with open(sys.argv[1], "w") as f:
    f.write(str(os.getpid()))
time.sleep(300)
