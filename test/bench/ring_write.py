"""What writing one record into a ring costs: ns per record, and what the bare loop with the same call costs.

Usage: python test/bench/ring_write.py [--row | RECORDS]    --row: the line of `make bench`'s table"""
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python"))
from memgauge._agent.record._spec import HOST_STRUCT  # noqa: E402
from memgauge._agent.record.ring import Ring, clock  # noqa: E402


def bare(stage, flags, device, name, step, allocated, max_allocated, cached, max_cached, ts=None):
    pass


def per_call(f, count, *args):
    """ns a call: the best of seven rounds, since others use the machine too."""
    best = None
    for _ in range(7):
        start = time.perf_counter_ns()
        for _ in range(count):
            f(*args)
        took = (time.perf_counter_ns() - start) / count
        best = took if best is None else min(best, took)
    return best


def main():
    row = sys.argv[1:] == ["--row"]
    count = int(sys.argv[1]) if len(sys.argv) > 1 and not row else 200000
    with tempfile.TemporaryDirectory() as directory:
        ring = Ring(directory, large=True)
        trace = (1, 0, -1, ring.name("layers.0.mlp"), 100, 123456789, 234567890, 123456789, (1 << 64) - 1)
        step = (1, 1, 100, 5000, 35000000, (123456789,) * (len(HOST_STRUCT.unpack(bytes(64))) - 8))
        loop = per_call(bare, count, *trace)
        if row:
            took = per_call(ring.trace, count, *trace)
            print("ring write of one record\t≤ 0.6 µs\t%.2f µs\tbare call %.2f µs, CPython %s" % (
                took / 1e3, loop / 1e3, sys.version.split()[0]))
            ring.close()
            return
        for what, f, args in (("trace", ring.trace, trace), ("step", ring.step, step[:-1]),
                              ("step with the host", ring.step, step),
                              ("trace, time given", ring.trace, trace + (clock(),)),
                              ("heap", ring.heap, (0, 1, 100, 7, 10, 20, 30, 40)),
                              ("event of 100 characters", ring.event, ("eval", "x" * 100))):
            took = per_call(f, count if what != "event of 100 characters" else count // 10, *args)
            print("%-24s %6.0f ns   over the bare loop (%.0f ns): %6.0f ns" % (what, took, loop, took - loop))
        ring.close()


if __name__ == "__main__":
    main()
