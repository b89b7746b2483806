"""Holds 100 KB more of malloc every 10 ms, for so many seconds, at one line."""
import ctypes
import os
import sys
import time

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]


def leak():
    libc.memset(libc.malloc(100_000), 1, 100_000)  # line 14


end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    leak()
    time.sleep(.01)
os._exit(0)  # clearing up takes seconds on a machine that is full, and is no part of what is tested
