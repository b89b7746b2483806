"""What `memgauge run` costs a short training: bare and observed runs of the same steps, in pairs of changing order.

Four figures, each the median over pairs: how much later Python's first line comes (ms), how much longer the imports
take (ms), the steps (ratio, of time and of the process's CPU time), and the end, from the last line to the command's
(ms). The steps leak or not: only what may leak is looked at by censuses.

Usage: python test/bench/short.py MEMGAUGE PYTHON [--steps 600] [--size 5] [--leak] [--pairs 10]"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

PROGRAM = """
import json, sys, time
first = time.monotonic()
import torch
torch.set_num_threads(1)
torch.manual_seed(0)
steps, width, leak, out = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]

def main():
    model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    kept, x = [], torch.randn(64, width)
    began, cpu = time.monotonic(), time.process_time()
    for step in range(steps):
        optimizer.zero_grad()
        y = model(x)
        if leak:
            kept.append(y.detach().clone())
        y.square().mean().backward()
        optimizer.step()
    ended, used = time.monotonic(), time.process_time() - cpu
    return began, ended, used

began, ended, used = main()
with open(out, "w") as f:
    json.dump([first, began, ended, used, time.monotonic()], f)
"""


def run(prefix, python, program, steps, width, leak, where):
    out = os.path.join(where, "times")
    spawned = time.monotonic()
    subprocess.run([*prefix, python, program, str(steps), str(width), str(int(leak)), out], check=True,
                   env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1"))
    over = time.monotonic()
    with open(out) as f:
        first, began, ended, used, last = json.load(f)
    return {"start": first - spawned, "imports": began - first, "steps": ended - began, "cpu": used,
            "end": over - last}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("memgauge")
    parser.add_argument("python")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--width", type=int, default=512, help="of the model: 512 makes steps of some 5 ms")
    parser.add_argument("--leak", action="store_true")
    parser.add_argument("--pairs", type=int, default=10)
    a = parser.parse_args()
    pairs = []
    with tempfile.TemporaryDirectory() as where:
        program = os.path.join(where, "short.py")
        with open(program, "w") as f:
            f.write(PROGRAM)
        for i in range(a.pairs):
            pair = {}
            for observed in ((False, True), (True, False))[i % 2]:
                session = os.path.join(where, "session%d" % i)
                prefix = [a.memgauge, "run", "--quiet", "--session", session, "--"] if observed else []
                pair[observed] = run(prefix, a.python, program, a.steps, a.width, a.leak, where)
            pairs.append(pair)
    bare = statistics.median(p[False]["steps"] for p in pairs)
    print("%d steps, %.2f s bare, %s, %d pairs" % (a.steps, bare, "leaking" if a.leak else "healthy", a.pairs))
    for key in ("start", "imports", "end"):
        values = sorted(1e3 * (p[True][key] - p[False][key]) for p in pairs)
        print("  %-8s %+7.0f ms (%+.0f to %+.0f)" % (key, statistics.median(values), *_half(values)))
    for key in ("steps", "cpu"):
        values = sorted(p[True][key] / p[False][key] for p in pairs)
        print("  %-8s %7.4f (%.4f to %.4f)" % (key, statistics.median(values), *_half(values)))
    sys.stdout.flush()


def _half(values):
    """The middle half."""
    return values[len(values) // 4], values[-1 - len(values) // 4]


main()
