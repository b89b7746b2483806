"""A process that blocks as the first argument says, and prints a line for every Ctrl-C."""
import os
import signal
import sys
import threading
import time

lock = threading.Lock()
lock.acquire()


def compute():
    while True:
        sum(range(100))


def read():
    sys.stdin.buffer.raw.read(1)


wait = {"sleep": lambda: time.sleep(1000), "read": read, "lock": lock.acquire, "compute": compute}[sys.argv[1]]
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\n"))
os.write(1, b"ready\n")
while True:
    wait()
