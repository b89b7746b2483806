"""What the sampling library must bear: threads, forks, signals, a small stack, 16 KiB between samples. Prints ok.

Started by the tests under the library (docs/native.md), and alone to see that it holds without.
"""
import ctypes
import multiprocessing
import os
import random
import signal
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.malloc.restype = ctypes.c_void_p
libc.malloc.argtypes = [ctypes.c_size_t]
libc.realloc.restype = ctypes.c_void_p
libc.realloc.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
END = time.monotonic() + SECONDS


def churn(seed):
    rng, held = random.Random(seed), []
    while time.monotonic() < END:
        for _ in range(50):
            held.append(libc.malloc(rng.choice((24, 900, 40_000, 300_000))))
            if rng.random() < .3:
                held[-1] = libc.realloc(held[-1], rng.choice((10, 5000, 200_000)))
        rng.shuffle(held)
        for p in held[20:]:
            libc.free(p)
        del held[20:]
        bytes(rng.randrange(1 << 20))
    for p in held:
        libc.free(p)


handling = False


def in_handler(signum, frame):
    global handling
    if handling:    # on a slow machine signals come faster than they are handled, one within the other
        return
    handling = True
    try:
        list(map(libc.free, [libc.malloc(100_000) for _ in range(20)]))
    finally:
        handling = False


def forks():
    while time.monotonic() < END:
        pid = os.fork()
        if pid == 0:
            for _ in range(100):
                libc.free(libc.malloc(100_000))
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            print("a forked child ended with", status)
            os._exit(1)


def many_threads(n):
    """As many as there may be; each allocates once."""
    threading.stack_size(64 << 10)
    for begin in range(0, n, 500):
        batch = []
        for _ in range(min(500, n - begin)):
            t = threading.Thread(target=lambda: libc.free(libc.malloc(70_000)))
            t.start()
            batch.append(t)
        for t in batch:
            t.join()
    threading.stack_size(0)


def deep(n):
    """Near the end of the stack, where there is no room for much."""
    junk = bytes(20_000)
    return deep(n - 1) + len(junk) if n else 0


def work(n):
    return sum(len(bytes(100_000)) for _ in range(n))


def main():
    signal.signal(signal.SIGALRM, in_handler)
    signal.setitimer(signal.ITIMER_REAL, .002, .002)
    threads = [threading.Thread(target=churn, args=(i,)) for i in range(4)] + [threading.Thread(target=forks)]
    for t in threads:
        t.start()
    try:
        deep(100_000)
    except (RecursionError, ctypes.ArgumentError):  # the handler may come when no call is left; ctypes wraps the error
        pass
    many_threads(int(os.environ.get("STRESS_THREADS", "200")))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(work, [10] * 20) == [1_000_000] * 20
    for t in threads:
        t.join()
    signal.setitimer(signal.ITIMER_REAL, 0)
    print("ok")


if __name__ == "__main__":
    main()
