"""Allocates, checks and frees in eight threads, six of them in C without the GIL, and leaks at one line, until a file
is there: nativestorm.py LIBRARY STOP ROUNDS PAUSE. Each turn of a thread has so many rounds, and a pause in seconds."""
import ctypes
import os
import sys
import threading
import time

library = ctypes.CDLL(sys.argv[1])
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
stop, rounds, pause = sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
ends, turns, wrong = threading.Event(), [0] * 8, []


def of_c(n):
    while not ends.is_set():
        turns[n] += 1
        if library.mix(n * 1000 + turns[n], rounds):
            wrong.append(n)
        ends.wait(pause)


def of_python(n):
    while not ends.is_set():
        turns[n] += 1
        held = [bytes([n]) * (600 + 97 * i) for i in range(rounds // 50)]
        if any(len(b) != 600 + 97 * i or b[-1] != n for i, b in enumerate(held)):
            wrong.append(n)
        ends.wait(pause)


def leak():
    ctypes.memset(libc.malloc(50_000), 1, 50_000)


threads = [threading.Thread(target=of_c if n < 6 else of_python, args=(n,)) for n in range(8)]
for t in threads:
    t.start()
print("ready", flush=True)
while not os.path.exists(stop):
    leak()
    time.sleep(0.02)
ends.set()
for t in threads:
    t.join()
print("wrong" if wrong or not all(turns) else "right")
