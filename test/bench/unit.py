"""What memgauge.unit() costs in a process that is not observed and in one that is: ns of CPU time a unit, the best of
some rounds.

    python3 test/bench/unit.py                       not observed
    bin/memgauge run -- python3 test/bench/unit.py   observed
"""
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import memgauge  # noqa: E402

ROUNDS, MANY = 7, 200_000


@memgauge.unit("request")
def decorated():
    pass


def plain():
    pass


def with_block():
    with memgauge.unit("request"):
        pass


def with_tokens():
    with memgauge.unit("request", tokens=512):
        pass


def best(function):
    """ns a call."""
    found = []
    for _ in range(ROUNDS):
        begin = time.thread_time_ns()
        for _ in range(MANY):
            function()
        found.append((time.thread_time_ns() - begin) / MANY)
    return min(found)


def main():
    observed = any(getattr(sys.modules.get(name), "current", None) for name, _ in memgauge.marks.AGENTS)
    base = best(plain)
    print("CPython %s, %s" % (sys.version.split()[0], "observed" if observed else "not observed"))
    for name, function in (("with memgauge.unit(…):", with_block), ("with …, tokens=512:", with_tokens),
                           ("@memgauge.unit(…)", decorated)):
        print("%-24s %5.0f ns" % (name, best(function) - base))


main()
