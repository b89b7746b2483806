"""Samples this process from now on, under a storm of allocations in threads, and holds 100 MB at one line: attached.py
LIBRARY DIRECTORY CYCLES. The last cycle stays attached; prints ok."""
import ctypes
import os
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.memgauge_attach.restype = ctypes.c_char_p
library.memgauge_attach.argtypes = [ctypes.c_char_p, ctypes.c_double]
library.memgauge_told.restype = ctypes.c_ulong
stop, sums = False, []


def storm():
    n = 0
    while not stop:
        held = [b"x" * (600 + 97 * i) for i in range(60)]
        n += all(len(b) == 600 + 97 * i and b[-1] == 120 for i, b in enumerate(held))
    sums.append(n)


def hold(malloc):
    for _ in range(5000):
        malloc(20_000)


threads = [threading.Thread(target=storm) for _ in range(8)]
for t in threads:
    t.start()
for cycle in range(int(sys.argv[3])):
    if cycle:
        assert library.memgauge_detach() == 0
    why = library.memgauge_attach(sys.argv[2].encode(), 131072.0)
    assert why is None, why
    assert library.memgauge_told(0) > 10
assert library.memgauge_attach(sys.argv[2].encode(), 131072.0) == b"its native memory is sampled already"
libc = ctypes.CDLL(None)        # looked up now: dlsym hands ours out
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
hold(libc.malloc)
libc.dlsym.restype, libc.dlsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
assert libc.dlsym(None, b"malloc"), "the place of the caller is lost"
libc.syscall.restype, libc.syscall.argtypes = ctypes.c_long, [ctypes.c_long] * 7
assert libc.syscall(9, 0, 30 << 20, 3, 0x22, -1, 0) > 0 or os.uname().machine != "x86_64"
if os.fork() == 0:
    hold(libc.malloc)
    os._exit(0)
assert os.wait()[1] == 0
stop = True
for t in threads:
    t.join()
assert all(sums)
print("ok", flush=True)
os._exit(0)
