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
}[doing]()
