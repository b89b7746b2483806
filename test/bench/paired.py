"""One training of test/bench/trainer_cost.py's sizes, for runs that are compared: observed, bare, beside a rival.

Usage: python test/bench/paired.py SIZE SECONDS FILE    Writes to FILE, in ns: the median and the mean step, and the median CPU time
of one in the thread that trains. Its time on the clock counts others who want the core, on a shared machine strangers
too."""
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
    took, used, now, cpu = [], [], time.perf_counter_ns(), time.thread_time_ns()
    end = now + int(seconds * 1e9)
    while now < end:
        step()
        then, now = now, time.perf_counter_ns()
        before, cpu = cpu, time.thread_time_ns()
        took.append(now - then)
        used.append(cpu - before)
    with open(out, "w") as f:
        f.write("%d %d %d" % (statistics.median(took), statistics.fmean(took), statistics.median(used)))


if __name__ == "__main__":
    main()
