"""What a census costs a program of a million objects: CPU time in all, the longest slice, and how long another thread
of the program waited for Python's lock, by its own clock, beside what it waits for when no census runs.

Shapes: one long list of instances; a dict of dicts; a tree whose containers are all small, which nothing shortens.

Usage: python test/bench/census.py [OBJECTS]"""
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from memgauge._agent.census import census  # noqa: E402


class Item:
    def __init__(self, n):
        self.name, self.pair = str(n), [n, float(n)]


def long_list(n):
    return [Item(i) for i in range(n // 3)]


def dict_of_dicts(n):
    return {i: {j: [j] for j in range(50)} for i in range(n // 101)}


def tree(n):
    top = []
    level = [top]
    while n > 0:
        below = []
        for node in level:
            children = [[] for _ in range(20)]
            node.extend(children)
            below += children
            n -= 20
            if n <= 0:
                break
        level = below
    return top


kept = None


def waits(seconds, stop=None):
    """The longest times in s that this thread did not get on, the longest first. Between two looks at the clock there
    is less than a microsecond of work."""
    gaps, clock = [], time.perf_counter
    end, last = clock() + seconds, clock()
    while last < end and not (stop and stop.is_set()):
        now = clock()
        if now - last > 5e-4:
            gaps.append(now - last)
        last = now
    return sorted(gaps, reverse=True)


def measure(name, make, n, allowance):
    global kept
    kept = make(n)
    quiet = waits(1.0)
    done = threading.Event()
    job = census.Census(census.Memory(), False, allowance)

    def control():
        due = time.monotonic()
        while due is not None:
            time.sleep(max(0, due - time.monotonic()))
            due = job.tick()
        done.set()

    thread = threading.Thread(target=control)
    began = time.perf_counter()
    thread.start()
    busy = waits(120, done)
    thread.join()
    wall = time.perf_counter() - began
    print("%-14s %9d objects seen, CPU %6.0f ms, wall %5.2f s, longest slice %.1f ms; another thread waited at most %.1f ms "
          "(median of the 5 longest %.1f), without a census %.1f%s" % (
              name, job.visited, job.spent / 1e6, wall, job.longest / 1e6, 1e3 * (busy or [0])[0],
              1e3 * (busy + [0] * 5)[2],
              1e3 * (quiet or [0])[0], "; " + "; ".join(job.notes) if job.notes else ""))
    kept = None


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    budget = 0.01 * census.SHARE * census.WINDOW
    for name, make in (("long list", long_list), ("dict of dicts", dict_of_dicts), ("small lists", tree)):
        measure(name, make, n, budget)
    measure("small, all", tree, n, 20e9)


main()
