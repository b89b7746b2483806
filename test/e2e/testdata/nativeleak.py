"""Leaks native memory at a rate until it is killed: nativeleak.py MIB_A_SECOND MIB_AT_ONCE CACHE_MIB. No PyTorch, no
steps. With CACHE_MIB it reads a file of that size over and over, so that page cache fills what is left of its
cgroup."""
import ctypes
import os
import sys
import tempfile
import time

rate, chunk, cache = float(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
size = int(chunk * (1 << 20))
file = tempfile.TemporaryFile(dir=os.getcwd())
for _ in range(cache):
    file.write(os.urandom(1 << 20))
file.flush()
if cache:
    os.fsync(file.fileno())     # clean pages can be given back
print("begins", flush=True)
began, n = time.monotonic(), 0
while True:
    ctypes.memset(libc.malloc(size), 1, size)
    n += 1
    for i in range(4):
        if cache:
            os.pread(file.fileno(), 1 << 20, (4 * n + i) % cache << 20)
    time.sleep(max(0, began + n * chunk / rate - time.monotonic()))
