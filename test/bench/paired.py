"""One training of test/bench/trainer_cost.py's sizes, for runs that are compared: observed, bare, beside a rival.

Usage: python test/bench/paired.py SIZE SECONDS FILE    Writes to FILE the median and the mean step in ns, and how many."""
import statistics
import sys
import time

import torch
from trainer_cost import SIZES, training


def main():
    size, seconds, out = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    torch.manual_seed(0)
    step, _ = training(torch, *next(s[1:] for s in SIZES if s[0] == size))
    for _ in range(20):
        step()
    took, now = [], time.perf_counter_ns()
    end = now + int(seconds * 1e9)
    while now < end:
        step()
        then, now = now, time.perf_counter_ns()
        took.append(now - then)
    with open(out, "w") as f:
        f.write("%d %d %d" % (statistics.median(took), statistics.fmean(took), len(took)))


if __name__ == "__main__":
    main()
