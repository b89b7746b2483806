#!/usr/bin/env python3
"""What sampling native memory costs and how right it is: prints the tables of docs/native.md.

    python3 test/bench/native/figures.py [--python PYTHON] [--only storm,steps,error,leaks,late] [--seconds 60]

PYTHON has the packages of the leaks (numpy, pillow, opencv-python-headless, pyarrow, pandas, tokenizers, lxml) and, for
the comparison, memray; what is missing is named and left out. Run after make build, on a machine that is idle.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
MEMGAUGE = os.path.join(ROOT, "bin", "memgauge")

STORM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
char PyCode_Type[8];                                   /* so that the library takes it for a Python */
void *PyGILState_GetThisThreadState(void) { return 0; }
unsigned long Py_Version = 0x030b00f0;
int main(void) {
    double best = 1e9;
    for (int r = 0; r < 14; r++) {                     /* the first ones pay what samples may take at the start */
        struct timespec a, b;
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &a);
        for (int i = 0; i < 10000000; i++) {
            char *p = malloc(64);
            __asm__ volatile("" ::"r"(p) : "memory");
            free(p);
        }
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &b);
        double ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e7;
        if (ns < best) best = ns;
    }
    printf("%.3f\n", best);
    return 0;
}
"""

STEPS = """
import hashlib, statistics, time
import numpy
block = bytes(2_000_000)
def step():
    rows = [numpy.empty(2000) for _ in range(200)]          # 3.2 MB in 200 blocks
    text = [str(i) * 20 for i in range(2000)]               # small objects
    a = numpy.empty(500_000); a.fill(1)                     # 4 MB
    end = time.thread_time() + .004
    while time.thread_time() < end:
        hashlib.sha256(block[:20_000])
times = []
for i in range(1000):
    begin = time.thread_time()
    step()
    times.append(time.thread_time() - begin)
late = times[500:]      # until then samples may take what they are given for the start, once
print(statistics.fmean(late), sum(times[:500]))
"""

ERROR = """
import ctypes, sys, time
libc = ctypes.CDLL(None); libc.malloc.restype = ctypes.c_void_p; libc.malloc.argtypes = [ctypes.c_size_t]
def hold():
    for i in range(100_000_000 // 4000): libc.malloc(4000)
hold()
time.sleep(.1)
"""


def library():
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    return os.path.join(ROOT, "internal", "probe", "native", "lib", arch, "libmemgauge_native.so")


def environ(where):
    return dict(os.environ, LD_PRELOAD=library(), MEMGAUGE_NATIVE=str(128 << 10), MEMGAUGE_NATIVE_DIR=where)


def storm(args, where):
    source, program = os.path.join(where, "storm.c"), os.path.join(where, "storm")
    with open(source, "w") as f:
        f.write(STORM)
    subprocess.run(["cc", "-O2", "-rdynamic", "-o", program, source], check=True)
    bare, ours = [], []
    for _ in range(7):      # alternating: what else the machine does meets both
        bare.append(float(subprocess.run([program], stdout=subprocess.PIPE, check=True).stdout))
        ours.append(float(subprocess.run([program], stdout=subprocess.PIPE, check=True, env=environ(where)).stdout))
    more = statistics.median(o - b for b, o in zip(bare, ours))
    print("| malloc and free of 64 bytes, CPU time | ns a pair |\n|---|---|")
    print("| bare glibc, least | %.1f |\n| sampled, least | %.1f |\n| more, median of %d pairs of runs | %.1f |\n" %
          (min(bare), min(ours), len(bare), more))


def pair(python, script, command, env, turn):
    """The two run at the same time, each on a core of its own: what else the machine does meets both. Cores change."""
    cores = sorted(os.sched_getaffinity(0))
    both = []
    for i, (argv, environment) in enumerate((([python, script], dict(os.environ)), (command, env))):
        core = cores[(i + turn) % len(cores)]
        both.append(subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment,
                                     universal_newlines=True, preexec_fn=lambda: os.sched_setaffinity(0, {core})))
    out = [p.communicate()[0] for p in both]
    if any(p.returncode for p in both):
        sys.exit("failed: %s" % " ".join(command))
    return [[float(x) * 1e3 for x in text.split()[-2:]] for text in out]


def ways_of(args, where, script):
    """What is compared with bare: the command, its environment, and how many pairs are run."""
    plain = [args.python, script]
    bare = dict(os.environ, MEMGAUGE_HOME=os.path.join(where, "home"))
    run = [MEMGAUGE, "run", "--quiet"]
    ways = {"bare, once more": (plain, bare, 12),
            "preloaded, no samples": (plain, dict(bare, LD_PRELOAD=library()), 12),
            "sampled": (plain, environ(where), 12),
            "memgauge run": (run + ["--"] + plain, bare, 6),
            "memgauge run --native": (run + ["--native", "--"] + plain, bare, 6)}
    if subprocess.run([args.python, "-c", "import memray"], stderr=subprocess.DEVNULL).returncode == 0:
        record = [args.python, "-m", "memray", "run", "-q", "-f", "-o", os.path.join(where, "a.bin"), script]
        ways["memray"] = (record, bare, 4)
        ways["memray --native"] = (record[:4] + ["--native"] + record[4:], bare, 4)
    else:
        print("memray: not in %s" % args.python, file=sys.stderr)
    return ways


def steps(args, where):
    script = os.path.join(where, "steps.py")
    with open(script, "w") as f:
        f.write(STEPS)
    print("| steps of 5 ms, behind the first 500 | CPU ms a step, bare | with | more, median of pairs | middle half |")
    print("|---|---|---|---|---|")
    for name, (command, env, count) in ways_of(args, where, script).items():
        pairs = [pair(args.python, script, command, env, turn) for turn in range(count)]
        bare, ours = (statistics.median(p[i][0] for p in pairs) for i in (0, 1))
        low, middle, high = statistics.quantiles([100 * (p[1][0] / p[0][0] - 1) for p in pairs], n=4)
        print("| %s, %d pairs | %.3f | %.3f | %+.1f %% | %+.1f to %+.1f %% |" % (
            name, count, bare, ours, middle, low, high), flush=True)
        if name == "sampled":
            once = statistics.median(p[1][1] - p[0][1] for p in pairs)
    print("\nThe first 500 steps took %.0f ms more with samples.\n" % once)


def error(args, where):
    script = os.path.join(where, "error.py")
    with open(script, "w") as f:
        f.write(ERROR)
    found = []
    for i in range(20):
        session = os.path.join(where, "error-%d" % i)
        subprocess.run([MEMGAUGE, "run", "--quiet", "--native", "--session", session, "--", args.python, script],
                       check=True)
        out = subprocess.run([MEMGAUGE, "-t", session, "native", "--json", "--top", "0"], stdout=subprocess.PIPE,
                             check=True).stdout
        found.append(sum(r["bytes"] for r in json.loads(out)["lines"] if r["site"].endswith("error.py:5")) / 100e6 - 1)
    print("| 100 MB in blocks of 4,000 bytes, 20 runs | |\n|---|---|")
    print("| error, root of the mean square | %.1f %% |\n| bias | %+.1f %% |\n| largest | %.1f %% |\n" % (
        100 * statistics.fmean(e * e for e in found) ** .5, 100 * statistics.fmean(found), 100 * max(map(abs, found))))


def leaks(args, where):
    program = os.path.join(HERE, "leaks.py")
    lines = dict(x.split() for x in subprocess.run([args.python, program, "--list"], stdout=subprocess.PIPE, check=True,
                                                   universal_newlines=True).stdout.splitlines())

    def run(name):
        """What leak and native diff say of the program while it lives, so long after its imports."""
        session = os.path.join(where, name)
        p = subprocess.Popen([MEMGAUGE, "run", "--quiet", "--native", "--session", session, "--", args.python, program,
                              name, str(2 * args.seconds)], stdout=subprocess.PIPE)
        p.stdout.readline()
        time.sleep(args.seconds)
        said = [subprocess.run([MEMGAUGE, "-t", session] + words + ["--json"], stdout=subprocess.PIPE).stdout
                for words in (["leak"], ["native", "diff", "--from", "10s"])]
        p.terminate()
        p.wait()
        return said

    # Few at once: imports that take a quarter of the minute leave no leak to be judged.
    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        answers = dict(zip(lines, pool.map(run, lines)))
    print("| leak of 1 MB/s for %g s | line | first of native diff | named by leak | held by |\n|---|---|---|---|---|" %
          args.seconds)
    right = first = 0
    for name in lines:
        out, diff = answers[name]
        grown = os.path.basename(json.loads(diff)["lines"][0]["site"]) if diff else ""
        first += grown == "leaks.py:" + lines[name]
        best = next((f for f in json.loads(out)["findings"] if f["verdict"] == "leak"), {})
        site = os.path.basename(best.get("site") or "")
        right += site == "leaks.py:" + lines[name]
        print("| %s | leaks.py:%s | %s | %s | %s |" % (name, lines[name], grown or "-", site or "-",
                                                       best.get("holder") or "-"), flush=True)
    print("\nThe right line: %d of %d by native diff, %d by leak" % (first, len(lines), right))


LATE = ("ctypes_malloc", "numpy_kept_by_c", "pillow_images", "opencv_resize", "arrow_buffers", "sqlite_databases",
        "lxml_trees", "zlib_objects", "tokenizers_encodings", "cpp_extension", "raw_maps", "memfd_maps")


def late(args, where):
    """What native diff and leak say of programs that were attached to after they had leaked for some time."""
    program = os.path.join(HERE, "leaks.py")
    lines = dict(x.split() for x in subprocess.run([args.python, program, "--list"], stdout=subprocess.PIPE, check=True,
                                                   universal_newlines=True).stdout.splitlines())

    def run(name):
        env = dict(os.environ, MEMGAUGE_HOME=os.path.join(where, name))
        p = subprocess.Popen([args.python, program, name, str(100 * args.seconds), str(int(20 * args.before))],
                             stdout=subprocess.PIPE)
        try:
            p.stdout.readline()
            subprocess.run([MEMGAUGE, "attach", "--native", "--timeout", "60s", str(p.pid)], env=env, check=True,
                           stdout=subprocess.DEVNULL)
            time.sleep(args.seconds)
            said = [subprocess.run([MEMGAUGE, str(p.pid)] + words + ["--json"], stdout=subprocess.PIPE, env=env).stdout
                    for words in (["leak"], ["native", "diff", "--from", "start"])]
            subprocess.run([MEMGAUGE, "detach", str(p.pid)], env=env, stdout=subprocess.DEVNULL)
        finally:
            p.terminate()
            p.wait()
        return said

    with concurrent.futures.ThreadPoolExecutor(args.at_once) as pool:
        answers = dict(zip(LATE, pool.map(run, LATE)))
    print("| attached to after %g s of a leak, sampled for %g s | line | first of native diff | function of C | grown, "
          "MB | leak |\n|---|---|---|---|---|---|" % (args.before, args.seconds))
    right = 0
    for name in LATE:
        out, diff = answers[name]
        first = (json.loads(diff)["lines"] or [{}])[0] if diff else {}
        site = os.path.basename(first.get("site") or "-")
        right += site == "leaks.py:" + lines[name]
        best = next((f for f in json.loads(out)["findings"] if f["verdict"] == "leak"), {}) if out else {}
        print("| %s | leaks.py:%s | %s | `%s` | %.1f | %s |" % (
            name, lines[name], site, first.get("called") or "-", first.get("grown", 0) / 1e6,
            os.path.basename(best.get("site") or "-")), flush=True)
    print("\nThe right line: %d of %d" % (right, len(LATE)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--python", default=sys.executable)
    p.add_argument("--only", default="storm,steps,error,leaks,late")
    p.add_argument("--seconds", type=float, default=60)
    p.add_argument("--before", type=float, default=60, help="seconds of a leak before it is attached to")
    p.add_argument("--at-once", type=int, default=os.cpu_count(), help="leaking programs that run at the same time")
    args = p.parse_args()
    where = tempfile.mkdtemp(prefix="memgauge-native-")
    try:
        for name in args.only.split(","):
            {"storm": storm, "steps": steps, "error": error, "leaks": leaks,
             "late": late}[name](args, where)
    finally:
        shutil.rmtree(where)


if __name__ == "__main__":
    main()
