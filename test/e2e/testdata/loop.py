"""A program that does what its first argument says until the file named by the second appears; prints what it has
summed up."""
import os
import queue
import sys
import threading
import time

what, stop = sys.argv[1], sys.argv[2]
answer = 41


def over():
    return os.path.exists(stop)


def release(action):
    """Has another thread end what the main thread waits for."""
    def watch():
        while not over():
            time.sleep(0.02)
        action()
    thread = threading.Thread(target=watch, name="release")
    thread.start()
    return thread


def crowd():
    for _ in range(50):
        threading.Thread(target=lambda: event.wait(), daemon=True).start()


def compute():
    total = 0
    while not over():
        for i in range(10_000):
            total += i * i % 7


event, lock, things, pipe = threading.Event(), threading.Lock(), queue.Queue(), os.pipe()
print("ready", flush=True)
if what == "compute":
    compute()
elif what == "sleep":
    while not over():
        time.sleep(0.05)
elif what == "join":
    release(lambda: None).join()
elif what == "event":
    release(event.set)
    event.wait()
elif what == "queue":
    release(lambda: things.put(1))
    things.get()
elif what == "read":
    release(lambda: os.write(pipe[1], b"x"))
    os.read(pipe[0], 1)
elif what == "extension":
    while not over():
        sorted(range(300_000), key=lambda n: -n)
elif what == "threads":
    crowd()
    compute()
print("answer", answer, flush=True)
