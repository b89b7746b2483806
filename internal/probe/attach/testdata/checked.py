"""A process that checks itself: whatever is done to it from outside, every turn must give what the first one gave.

checked.py numeric LIBRARY   native arithmetic, without the GIL, in registers
checked.py calls             blocking system calls: nothing lost, nothing too early, no error
checked.py pure              Python alone
"""
import hashlib
import os
import queue
import select
import signal
import struct
import sys
import threading
import time

turns = 0
bad = []


def pure(n=20000):
    x, h = 0.5, 0
    for i in range(n):
        x = x * 3.7 * (1 - x)
        h = (h * 31 + int(x * 1e15)) & 0xffffffffffff
    return hashlib.sha256(struct.pack('<dQ', x, h)).hexdigest()


def native(path):
    import ctypes
    f = ctypes.CDLL(path).numeric
    f.restype, f.argtypes = ctypes.c_uint64, (ctypes.c_uint64, ctypes.c_long)
    return lambda: f(12345, 100000)


def numbers(pipe):
    n = 0
    while True:
        os.write(pipe, struct.pack('<Q', n))
        n += 1
        time.sleep(0.0005)


class Calls:
    def __init__(self):
        self.r, w = os.pipe()
        threading.Thread(target=numbers, args=(w,), daemon=True).start()
        self.expect, self.queue, self.event, self.turn = 0, queue.Queue(), threading.Event(), 0
        self.poll, self.epoll = select.poll(), select.epoll()
        self.quiet, _ = os.pipe()
        self.poll.register(self.quiet, select.POLLIN)
        self.epoll.register(self.quiet, select.EPOLLIN)

    def read(self):
        got = b''
        while len(got) < 8:
            got += os.read(self.r, 8 - len(got))
        if struct.unpack('<Q', got)[0] != self.expect:
            return 'read %r, expected %d' % (got, self.expect)
        self.expect += 1

    def get(self):
        try:
            self.queue.get(timeout=0.002)
        except queue.Empty:
            pass

    def child(self):
        pid = os.fork()
        if pid == 0:
            time.sleep(0.002)
            os._exit(7)
        if os.waitpid(pid, 0)[1] >> 8 != 7:
            return 'exit status'

    def __call__(self):
        self.turn += 1
        lasting = [lambda: time.sleep(0.002), self.get, lambda: self.event.wait(0.002),
                   lambda: select.select([self.quiet], [], [], 0.002),
                   lambda: self.poll.poll(2), lambda: self.epoll.poll(0.002)]
        for i, call in enumerate(lasting):
            before = time.monotonic()
            result = call()
            took = time.monotonic() - before
            if result not in (None, False, [], ([], [], [])) or took < 0.0019:
                return 'call %d: %r after %f s' % (i, result, took)
            wrong = self.read()
            if wrong:
                return wrong
        return self.child() if self.turn % 20 == 0 else None


def main():
    global turns
    work = {'numeric': lambda: native(sys.argv[2]), 'calls': Calls, 'pure': lambda: pure}[sys.argv[1]]()
    want = work()
    print('ready', flush=True)
    while True:
        got = work()
        if got != want:
            bad.append(got)
        turns += 1


main()
