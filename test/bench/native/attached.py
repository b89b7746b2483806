#!/usr/bin/env python3
"""What sampling costs a program that is attached to while it runs, at steps of some 5 ms: prints a table for
docs/benchmarks.md.

    python3 test/bench/native/attached.py [--python PYTHON] [--pairs 8] [--steps 600]

Two processes run the same steps side by side, each on a core of its own, and change cores from pair to pair; one of
them is attached to. What counts is the CPU time of a whole process (all threads, the agent's too) over the steps behind
the first 300 after the attach: on a shared machine that moves less than time does. Printed is the median of the pairs'
ratios, with a 95 % interval by resampling the pairs. PYTHON has numpy, and memray for the comparison (it attaches by
gdb). Run after make build.
"""
import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
MEMGAUGE = os.path.join(HERE, "..", "..", "..", "bin", "memgauge")
PROGRAM = """
import hashlib, select, sys, time
import numpy
block = bytes(2_000_000)
def step():
    rows = [numpy.empty(2000) for _ in range(200)]          # 3.2 MB in 200 blocks
    text = [str(i) * 20 for i in range(2000)]               # small objects
    a = numpy.empty(500_000); a.fill(1)                     # 4 MB
    for _ in range(400):
        hashlib.sha256(block[:20_000]).digest()
def steps(n):
    for _ in range(n):
        step()
steps(100)
print("ready", flush=True)
while not select.select([sys.stdin], [], [], 0)[0]:     # a debugger waits for the next malloc
    step()
sys.stdin.readline()
steps(300)          # until then samples may take what they are given for the start, once
begin = time.process_time()
steps(int(sys.argv[1]))
print((time.process_time() - begin) / int(sys.argv[1]), flush=True)
sys.stdin.readline()
"""


def nothing(pid, where):
    pass


def call(argv, where):
    env = dict(os.environ, MEMGAUGE_HOME=os.path.join(where, "home"))
    done = subprocess.run(argv, env=env, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
    if done.returncode:
        sys.exit("failed: %s\n%s" % (" ".join(argv), done.stdout))


def memgauge(*words):
    return lambda pid, where: call([MEMGAUGE, "attach", "--timeout", "60s"] + list(words) + [str(pid)], where)


def memray(python, *words):
    def attach(pid, where):
        call([python, "-m", "memray", "attach", "-f", "-o", os.path.join(where, "memray-%d" % pid)] + list(words)
             + [str(pid)], where)
    return attach


def pair(args, where, attach, turn):
    """CPU seconds a step: bare, and attached to."""
    cores = sorted(os.sched_getaffinity(0))
    both = []
    for i in range(2):
        core = cores[(i + turn) % len(cores)]
        both.append(subprocess.Popen([args.python, "-c", PROGRAM, str(args.steps)], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE, universal_newlines=True,
                                     preexec_fn=lambda: os.sched_setaffinity(0, {core})))
    try:
        for p in both:
            p.stdout.readline()
        attach(both[1].pid, where)
        for p in both:
            p.stdin.write("go\n")
            p.stdin.flush()
        return [float(p.stdout.readline()) for p in both]
    finally:
        for p in both:
            p.stdin.close()
            p.wait()
            p.stdout.close()


def interval(ratios):
    """95 % of the median, by resampling."""
    dice = random.Random(1)
    medians = sorted(statistics.median(dice.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[-101]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--pairs", type=int, default=8)
    p.add_argument("--steps", type=int, default=600)
    args = p.parse_args()
    ways = {"nothing: the control": nothing, "memgauge attach": memgauge(),
            "memgauge attach --native": memgauge("--native")}
    if subprocess.run([args.python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode == 0:
        ways["memray attach"] = memray(args.python)
        ways["memray attach --native"] = memray(args.python, "--native")
    where = tempfile.mkdtemp(prefix="memgauge-attached-")
    found, bare = {name: [] for name in ways}, []
    try:
        for turn in range(args.pairs):      # in turns: what else the machine does meets all of them
            for name, attach in ways.items():
                plain, with_it = pair(args, where, attach, turn)
                bare.append(plain)
                found[name].append(with_it / plain)
                print("%s: %.3f" % (name, with_it / plain), file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(where)
    print("%d pairs of each, %d steps of %.2f ms of CPU time; load %.0f on %d cores\n" % (
        args.pairs, args.steps, 1e3 * statistics.median(bare), os.getloadavg()[0], len(os.sched_getaffinity(0))))
    print("| attached to by | CPU time by that of the bare run, median | 95 % interval |\n|---|---|---|")
    for name, ratios in found.items():
        print("| %s | %.3f | %.3f to %.3f |" % ((name, statistics.median(ratios)) + interval(ratios)))


if __name__ == "__main__":
    main()
