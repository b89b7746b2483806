"""Writes numbered step records as fast as a busy trainer, and keeps a ledger of them that survives a kill: after record
n is published, n goes into the ledger file. Arguments: ledger file, number of records, pause in s between them."""
import os
import struct
import sys
import time

from memgauge._agent import recording
from memgauge._agent.record._spec import HOST_STRUCT, NOT_TAKEN

REST = (NOT_TAKEN,) * (len(HOST_STRUCT.unpack(bytes(64))) - 10)     # of a host record, behind rss and anon
ledger = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
count, pause = int(sys.argv[2]), float(sys.argv[3])
ring = recording.ring(large=True)
print("pid", os.getpid(), flush=True)
for n in range(1, count + 1):
    ring.step(0, 1, n, 0, 1000, (n, n) + REST)
    os.pwrite(ledger, struct.pack("<Q", n), 0)
    end = time.perf_counter() + pause
    while time.perf_counter() < end:
        pass
print("done", flush=True)
