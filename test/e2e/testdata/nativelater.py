"""Leaks native memory by ctypes, by numpy where it is there, and by a library that it opens late, until a file is
there: nativelater.py LIBRARY STOP. Its functions of C were looked up before anybody attached."""
import ctypes
import os
import sys
import threading
import time

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
stop, wrong, late, kept = sys.argv[2], [], [], []
try:
    import numpy
except ImportError:
    numpy = None


def by_ctypes():
    ctypes.memset(libc.malloc(50_000), 1, 50_000)


def by_numpy():
    kept.append(numpy.zeros(50_000, "u1"))


def by_library():
    if not late and os.path.exists(stop + ".late"):
        late.append(ctypes.CDLL(sys.argv[1]))
        late[0].keep.argtypes = [ctypes.c_int, ctypes.c_size_t]
    if late:
        wrong.append(late[0].mix(len(wrong), 50))
        late[0].keep(3, 20_000)


def churn():
    while not os.path.exists(stop):
        held = [bytearray(k) for k in range(600, 40_000, 300)]
        wrong.append(sum(len(b) for b in held) != sum(range(600, 40_000, 300)))
        time.sleep(0.002)


threads = [threading.Thread(target=churn) for _ in range(2)]
for t in threads:
    t.start()
print("ready", flush=True)
while not os.path.exists(stop):
    by_ctypes()
    if numpy:
        by_numpy()
    by_library()
    time.sleep(0.01)
for t in threads:
    t.join()
pid = os.fork()
if pid == 0:
    os._exit(by_ctypes() is not None)
print("wrong" if any(wrong) or os.waitpid(pid, 0)[1] else "right")
