"""Frames of other threads: read while the threads go on, and the garbage collector strikes anywhere."""
import gc
import os
import subprocess
import sys
import threading
import unittest
import weakref

from client import AGENT
from lane import times

from memgauge._agent import frames

# The main thread calls, returns, yields and raises; another reads its stack; each collection runs Python, which gives
# the lock away. Up to 3.11 a collection comes in the middle of making a frame object.
CHURN = """
import contextlib, gc, sys, threading, time
from memgauge._agent import frames
rest = time.sleep
def finalizer(phase, info): rest(2e-5)
gc.callbacks.append(finalizer)
gc.set_threshold(15)
sys.setswitchinterval(5e-6)
main, walks, stop, kept = threading.get_ident(), 0, [], []
def read():
    global walks
    while not stop:
        stack = frames.stack(frames.innermost_of(main))
        assert all(type(f).__name__ == "frame" for f in stack), stack
        kept.append([[f] for f in stack])
        if stack and len(stack) > 2:
            values = frames.values(stack[0])
            assert hasattr(values, "keys"), values
            del values
        del kept[:-5]
        walks += 1
reader = threading.Thread(target=read); reader.start()
@contextlib.contextmanager
def context(): yield
def numbers(n):
    for i in range(n): yield i, bool(i & 1)
def leaf(a, b): return a and not b
def deep(n):
    x, y = True, False
    return leaf(x, y) if n == 0 else deep(n - 1) and x
def work():
    with context():
        for _, odd in numbers(5): leaf(odd, True)
    sorted(range(5), key=lambda v: leaf(True, False)); deep(30); list(map(lambda v: deep(2), range(3)))
    try:
        try: raise ValueError
        finally: leaf(True, True)
    except ValueError: pass
end = time.monotonic() + SECONDS
while time.monotonic() < end: work()
stop.append(1); reader.join()
print("walks", walks)
"""

# One thread reads; another switches the collector off and on, and must find it as it left it.
SWITCHED = """
import gc, sys, threading, time
from memgauge._agent import frames
sys.setswitchinterval(5e-6)
main, stop, wrong, reads = threading.get_ident(), [], [], [0]
def read():
    while not stop:
        frames.stack(frames.innermost_of(main), 20); reads[0] += 1
reader = threading.Thread(target=read); reader.start()
end = time.monotonic() + SECONDS
while time.monotonic() < end and not wrong:
    for switch, on in ((gc.disable, False), (gc.enable, True)):
        switch()
        for _ in range(50):
            if gc.isenabled() is not on: wrong.append(on)
stop.append(1); reader.join()
print(wrong, reads[0] > 100)
"""


def run(code):
    env = dict(os.environ, PYTHONPATH=AGENT, PYTHONFAULTHANDLER="1", PYTHONDONTWRITEBYTECODE="1")
    code = "SECONDS = %d\n" % times(1, 3) + code
    done = subprocess.run([sys.executable, "-c", code], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, timeout=120)
    return done.returncode, done.stdout


class Frames(unittest.TestCase):
    def naive(self):
        frame, found = sys._getframe(1), []
        while frame is not None:
            found.append(frame)
            frame = frame.f_back
        return found

    def test_stack_is_what_a_walk_finds(self):
        def deep(n):
            if n:
                return deep(n - 1)
            mine = self.naive()
            self.assertEqual(frames.stack(sys._getframe()), mine)
            for most in (0, 1, 2, 999, 1000, 1001, 2001, len(mine), len(mine) + 1):
                self.assertEqual(frames.stack(sys._getframe(), most), mine[:most])
            self.assertIs(frames.caller(mine[0]), mine[1])
            self.assertIs(frames.innermost_of(threading.get_ident()), mine[0])
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5000)
        try:
            deep(3)
            deep(2500)
        finally:
            sys.setrecursionlimit(limit)
        self.assertEqual(frames.stack(None), [])
        self.assertIsNone(frames.innermost_of(-1))
        self.assertTrue(gc.isenabled())

    def test_nothing_is_kept(self):
        """A frame of ours that held what was read would keep its callers' locals too, until a collection."""
        class Local:
            pass
        gone, done = [], threading.Event()

        def reads():
            local = Local()
            gone.append(weakref.ref(local))
            tops = frames.innermost()
            self.assertNotIn(threading.get_ident(), tops)
            frames.stack(tops[threading.main_thread().ident])
        gc.disable()
        try:
            thread = threading.Thread(target=lambda: (reads(), done.set()))
            thread.start()
            thread.join()
        finally:
            gc.enable()
        self.assertTrue(done.is_set())
        self.assertIsNone(gone[0]())

    def test_values(self):
        here = 12
        self.assertEqual(frames.values(sys._getframe())["here"], here)
        with self.assertRaises(AttributeError):
            frames.values(None)
        self.assertTrue(gc.isenabled())
        gc.disable()
        try:
            frames.stack(sys._getframe())
            self.assertFalse(gc.isenabled())
        finally:
            gc.enable()

    def test_collections_in_the_middle(self):
        """On 3.11 a walk with f_back ends this by SIGSEGV."""
        code, output = run(CHURN)
        self.assertEqual(code, 0, output)
        self.assertGreater(int(output.split()[1]), 10, output)

    def test_the_collector_is_the_programs_own(self):
        self.assertEqual(run(SWITCHED), (0, "[] True\n"))


if __name__ == "__main__":
    unittest.main()
