"""A process whose main thread does what the first argument says, for ever."""
import queue
import sys
import threading
import time

doing = sys.argv[1]


def compute():
    x = 1
    while True:
        x = x * 3 % 1000003


def extension():
    """Native code that holds the GIL for some milliseconds at a time."""
    data = list(range(300000))
    while True:
        data.sort(key=None)
        data.reverse()


def hog():
    """Native code that keeps the GIL until a line comes in."""
    import ctypes
    ctypes.PyDLL(None).getchar()
    print("free", flush=True)
    sleep()


class Deep:
    """Recursion through C, which needs stack."""
    def __init__(self, n):
        self.n = n

    def __repr__(self):
        if self.n:
            return repr(Deep(self.n - 1))
        sum(range(100000))  # stays here for a millisecond or two
        return ""


def stack():
    """How far the main thread's stack has ever been, in bytes."""
    with open("/proc/self/maps") as f:
        lo, hi = next(line for line in f if "[stack]" in line).split()[0].split("-")
    return int(hi, 16) - int(lo, 16)


def deep():
    """Goes down to 32 KiB before the end of the stack and up again. Nearer, any thread that asks for the GIL would end
    it: answering needs functions that the dynamic linker looks up on this stack when they are first called."""
    import resource
    sys.setrecursionlimit(100000)
    repr(Deep(400))
    first = stack()
    repr(Deep(500))
    each = (stack() - first) / 100
    n = 500 + int((resource.getrlimit(resource.RLIMIT_STACK)[0] - 32768 - stack()) / each)
    while True:
        repr(Deep(n))


def threads():
    for _ in range(50):
        threading.Thread(target=lambda: time.sleep(1000), daemon=True).start()
    compute()


def join():
    t = threading.Thread(target=lambda: time.sleep(1000), daemon=True)
    t.start()
    t.join()


def sleep():
    while True:
        time.sleep(1000)


print("ready", flush=True)
{
    "compute": compute,
    "sleep": sleep,
    "join": join,
    "event": lambda: threading.Event().wait(),
    "queue": lambda: queue.Queue().get(),
    "read": lambda: sys.stdin.read(),
    "extension": extension,
    "threads": threads,
    "hog": hog,
    "deep": deep,
}[doing]()
