"""What observing costs a training, with an interval, or that this machine can't tell and why.

    python3 test/bench/cost --python PYTHON [--memgauge bin/memgauge] [--minutes 15] [--only WORD] [--write FILE]
    python3 test/bench/cost --python PYTHON --self-test

PYTHON has torch. Blocks of steps with the agent and without it alternate in one process (trainer.py says how the agent
is put out of the way, estimate.py how a cost is put together from its parts); a bare and an observed training run
beside each other on two cores that they exchange every second; the start and the end of `memgauge run` are compared
with bare runs in pairs. --self-test has all of them find a cost that is known. --write puts the tables into a document
of Markdown, in place of the section of this name.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import platform
import re
import struct
import subprocess
import sys
import tempfile
import time

import estimate

HERE = os.path.dirname(os.path.abspath(__file__))
WINDOWS = ((0, 3), (3, 10), (10, 60), (60, 1e9))
NAMES = {WINDOWS[0]: "0 to 3 s", WINDOWS[1]: "3 to 10 s", WINDOWS[2]: "10 to 60 s", WINDOWS[3]: "after 60 s"}
MODES = (("--trace off", "5", ["--trace", "off"]), ("--trace all", "5", ["--trace", "all"]),
         ("--native", "5", ["--native"]), ("--guard guide", "5", ["--guard", "guide"]),
         ("two DataLoader workers", "workers", []))
RESOLVED = 0.002   # half of an interval that the ruler is for
EXCHANGE = 1.0     # s between two exchanges of the twins' cores
HEADING = "## What a training pays, by the ruler"


class Ruler:
    def __init__(self, o, where):
        self.o, self.where, self.count = o, where, 0
        self.env = dict(os.environ, OMP_NUM_THREADS="1", MEMGAUGE_HOME=os.path.join(where, "home"),
                        PYTHONDONTWRITEBYTECODE="1")
        os.mkdir(self.env["MEMGAUGE_HOME"])

    def command(self, observed, kind, size, seconds, last, flags=()):
        self.count += 1
        out = os.path.join(self.where, "out%d" % self.count)
        prefix = [self.o.memgauge, "run", "--quiet", "--session", out + ".session", *flags, "--"] if observed else []
        return out, [*prefix, self.o.python, os.path.join(HERE, "trainer.py"), kind, size, out, str(seconds), str(last)]

    def result(self, command):
        out, words = command
        done = subprocess.run(words, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not os.path.exists(out):
            raise SystemExit("%s: exit %d\n%s" % (" ".join(words), done.returncode, done.stdout))
        with open(out) as f:
            return json.load(f)

    # ------------------------------------------------------------ blocks in one process

    def blocks(self, size, seconds, starts, flags=()):
        return self.result(self.command(True, "blocks", size, seconds, starts, flags))["blocks"]

    # ------------------------------------------------------------ twins

    def twins(self, size, seconds, share=0.0):
        """Both at once: the seconds that they shared, their lines, and CPU time of the observed one's collector at its
        age. With a share, neither has an agent, and the second spins."""
        bare = self.command(False, "twin", size, seconds, 0)
        other = self.command(not share, "twin", size, seconds, share)
        ran = [subprocess.Popen(words, env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for _, words in (bare, other)]
        for p in ran:
            if p.stdout.readline().strip() != "ready":
                raise SystemExit("a twin did not start: %s" % " ".join(p.args))
        trainers = [ran[0].pid, ran[1].pid if share else child(ran[1].pid)]
        background = [] if share else of_session(other[0] + ".session")
        cores = sorted(os.sched_getaffinity(0))[:2]
        for p in ran:
            p.stdin.write("\n")
            p.stdin.flush()
        began, turn, used = time.monotonic(), 0, []
        while time.monotonic() < began + seconds:
            for i, pid in enumerate(trainers):
                pin(pid, cores[(i + turn) % len(cores)])
            used.append((time.monotonic() - began, sum(map(cpu_of, background))))
            turn += 1
            time.sleep(max(0.0, began + turn * EXCHANGE - time.monotonic()))
        for p in ran:
            p.wait()
            p.stdin.close()
            p.stdout.close()
        results = [json.load(open(out)) for out, _ in (bare, other)]
        return by_second(results, began), results, used

    # ------------------------------------------------------------ start and end

    def start(self, program, arguments=()):
        """(s until the first line, s until the program's end, s from that until the command's) of a run."""
        times = {}
        for observed in (False, True):
            self.count += 1
            out = os.path.join(self.where, "start%d" % self.count)
            prefix = [self.o.memgauge, "run", "--quiet", "--session", out + ".session", "--"] if observed else []
            spawned = time.monotonic()
            p = subprocess.Popen([*prefix, self.o.python, "-c", program, out, *arguments], env=self.env)
            gone = None
            while p.poll() is None:
                if gone is None and os.path.exists(out) and not alive(out):
                    gone = time.monotonic()
                time.sleep(0.002)
            over = time.monotonic()
            with open(out) as f:
                _, first = f.read().split()
            times[observed] = float(first) - spawned, over - (gone or over)
        return times[True][0] - times[False][0], times[True][1]


def child(pid):
    """The training that `memgauge run` has started."""
    with open("/proc/%d/task/%d/children" % (pid, pid)) as f:
        children = f.read().split()
    for other in os.listdir("/proc/%d/task" % pid):
        with open("/proc/%d/task/%s/children" % (pid, other)) as f:
            children += f.read().split()
    return next(int(c) for c in children if b"trainer.py" in command_of(c) and b"collector" not in command_of(c))


def command_of(pid):
    try:
        with open("/proc/%s/cmdline" % pid, "rb") as f:
            return f.read()
    except OSError:
        return b""


def of_session(directory):
    return [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and b"\0collector\0" in command_of(pid)
            and directory.encode() in command_of(pid)]


def alive(out):
    with open(out) as f:
        words = f.read().split()
    try:
        with open("/proc/%s/stat" % words[0]) as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except (OSError, IndexError):
        return False


def pin(pid, core):
    for task in os.listdir("/proc/%d/task" % pid) if os.path.exists("/proc/%d" % pid) else ():
        try:
            os.sched_setaffinity(int(task), {core})
        except ProcessLookupError:
            pass


def cpu_of(pid):
    """s of CPU time of all threads that live (their own first figure, in ns: Documentation/scheduler/sched-stats)."""
    total = 0
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/schedstat" % (pid, task)) as f:
                total += int(f.read().split()[0])
    except OSError:
        pass
    return total / 1e9


def by_second(results, began):
    """[(bare, observed)] of each second between two exchanges: steps, CPU time of the thread, time."""
    sides = []
    for r in results:
        seconds = {}
        for a, b in zip(r["lines"], r["lines"][1:]):
            at = int((a[0] / 1e9 - began) / EXCHANGE)
            if int((b[0] / 1e9 - began) / EXCHANGE) == at:     # not across an exchange
                s = seconds.setdefault(at, {"steps": 0, "thread": 0, "wall": 0, "process": 0})
                for key, i in (("wall", 0), ("steps", 1), ("thread", 2), ("process", 3)):
                    s[key] += b[i] - a[i]
        sides.append(seconds)
    whole = [at for at in sorted(sides[0]) if at in sides[1] and sides[0][at]["steps"] and sides[1][at]["steps"]]
    return [(sides[0][at], sides[1][at]) for at in whole]


def counters():
    """Why the processor's counters can't be read; None where they can (perf_event_open(2): instructions)."""
    attributes = bytearray(128)
    struct.pack_into("IIQ", attributes, 0, 0, 128, 1)       # PERF_TYPE_HARDWARE, size, PERF_COUNT_HW_INSTRUCTIONS
    struct.pack_into("Q", attributes, 40, 1 << 5 | 1 << 6)  # exclude_kernel, exclude_hv
    libc = ctypes.CDLL(None, use_errno=True)
    number = {"x86_64": 298, "aarch64": 241}.get(platform.machine())
    if number is None:
        return "unknown processor"
    buffer = (ctypes.c_char * 128).from_buffer(attributes)
    fd = libc.syscall(number, buffer, 0, -1, -1, 0)
    if fd < 0:
        return os.strerror(ctypes.get_errno())
    os.close(fd)
    return None


# ---------------------------------------------------------------- tables

def cell(e):
    if e is None:
        return "too few steps"
    return str(e) + ("" if e.half <= RESOLVED else " ?")


def row(blocks, collector):
    """The cells of one line: the thread's parts and their sum, other threads, the collector, all of them, blocks."""
    account, stirred, edge = estimate.account(blocks), estimate.stirred(blocks), estimate.edge(blocks)
    if account is None:
        return ["too few steps"] * 7
    rest = sum((e for e, _ in stirred.values()), estimate.NOTHING)
    thread = account + rest
    if edge is not None and edge.half <= RESOLVED:
        thread += edge
    beside = estimate.beside(blocks)
    core = estimate.Estimate(thread.value + beside + collector, thread.half) if collector is not None else None
    return [cell(account), cell(rest), cell(edge), cell(thread), "%+.2f %%" % (100 * beside),
            "%.2f %%" % (100 * collector) if collector is not None else "", cell(core) if core else "",
            cell(estimate.by_blocks(blocks, "thread")), cell(estimate.by_blocks(blocks, "wall"))]


HEAD = ("| steps | age | hooks, timed | steps that they stir | all other steps | **training thread** | its other "
        "threads | collector, of a core | **all on one core** | blocks, CPU time | blocks, clock |\n" + "|---" * 11
        + "|")


def line(cells):
    return "| " + " | ".join(cells) + " |"


def share(used, window):
    """The collector's share of a core in a window of the training's age."""
    inside = [(at, cpu) for at, cpu in used if window[0] <= at <= window[1]]
    if len(inside) < 3:
        return None
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


def sizes(ruler, seconds, used):
    wanted = [s for s in ("0.2", "1", "5", "30") if ruler.o.only in "sizes " + s]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda s: ruler.blocks(s, seconds, 2), wanted))
    yield HEAD
    for size, blocks in zip(wanted, runs):
        length = estimate.median([b["thread"] / b["steps"] / 1e6 for b in blocks if not b["on"]])
        for window in WINDOWS:
            part = [b for b in blocks if window[0] <= b["age"] < window[1]]
            if len(part) > 2 * estimate.FEW:
                yield line(["%s ms (%.2f here)" % (size, length), NAMES[window], *row(part, share(used, window))])
    yield ""
    yield "| steps | what the hook does | of the steps | ns |\n|---|---|---|---|"
    words = dict(estimate.PARTS, **{".": "counts", "w": "counts, and writes a record"})
    for size, blocks in zip(wanted, runs):
        old = [b for b in blocks if b["age"] >= 3]
        parts = estimate.hooks(old) if old else {}
        total = sum(n for n, _ in parts.values())
        for did, (n, ns) in sorted(parts.items(), key=lambda p: -p[1][0] * p[1][1]):
            yield line([size + " ms", words[did], "%.2f %%" % (100 * n / total), "%d" % ns])


def modes(ruler, seconds):
    wanted = [m for m in MODES if ruler.o.only in "modes " + m[0]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda m: ruler.blocks(m[1], seconds, 0, m[2]), wanted))
    yield HEAD
    for (name, _, _), blocks in zip(wanted, runs):
        yield line(["5 ms, " + name, "from 3 s on", *row([b for b in blocks if b["age"] >= 3] or blocks, None)])


def twins(ruler, seconds):
    """The second way, and the collector as nobody disturbs it."""
    shared, _, used = ruler.twins("5", seconds)
    lines = ["| twins, 5 ms steps | CPU time of the thread | of the process | clock | collector, of a core |\n"
             "|---|---|---|---|---|"]
    for window in WINDOWS:
        part = shared[int(window[0]):int(min(window[1], 1e6))]
        if len(part) >= 4:
            found = [cell(estimate.by_twins(part, column)) for column in ("thread", "process", "wall")]
            lines.append(line([NAMES[window], *found,
                               "%.2f %%" % (100 * (share(used, window) or 0))]))
    return used, lines


FIRST_LINE = """
import os, sys, time
first = time.monotonic()
open(sys.argv[1], "w").write("%d %f" % (os.getpid(), first))
"""
FIRST_STEP = """
import os, sys, time
import torch
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(200):
    optimizer.zero_grad()
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    if step == 0:
        first = time.monotonic()
open(sys.argv[1], "w").write("%d %f" % (os.getpid(), first))
"""


def ends(ruler, seconds):
    yield "| start and end of `run` | later by, median | middle half |\n|---|---|---|"
    for what, program in (("Python's first line, no torch", FIRST_LINE), ("the first step", FIRST_STEP)):
        end, pairs = time.monotonic() + seconds / 2, []
        while time.monotonic() < end or len(pairs) < 3:
            pairs.append(ruler.start(program))
        for name, values in ((what, [p[0] for p in pairs]), ("`run`'s return after the program's end, " + (
                "no torch" if program is FIRST_LINE else "200 steps"), [p[1] for p in pairs])):
            values = sorted(1e3 * v for v in values)
            yield line([name, "%+.0f ms" % estimate.median(values),
                        "%+.0f to %+.0f" % (values[len(values) // 4], values[-1 - len(values) // 4])])


def self_test(ruler, seconds):
    """A cost that is known, found by all ways; the truth for each is what was spun, over what it compares with."""
    yield "| spun | way | true | found | |\n|---|---|---|---|---|"
    for wanted in (0.005, 0.01, 0.02):
        r = ruler.result(ruler.command(False, "spin", "0.2", seconds, wanted))
        blocks = r["blocks"]
        off = [b for b in blocks if not b["on"]]
        each = r["spun"] / r["hooked"] - sum(sum(b["hooked"]) for b in off) / sum(b["steps"] for b in off)
        steps = [took - hooked for b in off for took, hooked in zip(b["took"], b["hooked"])]
        mean, edge = sum(steps) / len(steps), sorted(steps)[int(len(steps) * estimate.EDGE)]
        ways = [("account", each / mean, estimate.account(blocks)), ("edge", each / edge, estimate.edge(blocks, True)),
                ("blocks", each / mean, estimate.by_blocks(blocks, "thread"))]
        shared, results, _ = ruler.twins("0.2", seconds, wanted)
        counted = results[1]["lines"][-1][1] - results[1]["lines"][0][1]
        bare = results[0]["lines"]
        typical = (bare[-1][2] - bare[0][2]) / (bare[-1][1] - bare[0][1])
        ways.append(("twins", results[1]["spun"] / counted / typical, estimate.by_twins(shared, "thread")))
        for name, truth, found in ways:
            said = "too few" if found is None else "found" if found.holds(truth) else "NOT FOUND"
            if found is not None and found.half > RESOLVED:
                said += ", not resolved"
            yield line(["%.1f %%" % (100 * wanted), name, "%.2f %%" % (100 * truth), str(found), said])


def machine():
    with open("/proc/cpuinfo") as f:
        model = re.search(r"model name\s*: (.*)", f.read())
    why = counters()
    return "%s, %d cores of %s, load %s; %s." % (
        time.strftime("%Y-%m-%d %H:%M"), os.cpu_count(), model.group(1) if model else platform.machine(),
        " ".join("%.0f" % v for v in os.getloadavg()),
        "the processor's counters can be read" if why is None else
        "neither instructions nor cache misses can be counted here (perf_event_open: %s)" % why)


def section(ruler):
    """Lines of the document."""
    o, total = ruler.o, ruler.o.minutes * 60
    yield HEADING
    yield ""
    yield "`python3 test/bench/cost --minutes %g`. %s" % (o.minutes, machine())
    yield ""
    used, lines = [], []
    if o.only in "twins" or o.only in "sizes":
        used, lines = twins(ruler, total * 0.12)
    if o.only in "sizes 0.2 1 5 30":
        yield from sizes(ruler, total * 0.26, used)
        yield ""
    if o.only in "modes" or o.only.startswith("modes"):
        yield from modes(ruler, total * 0.06)
        yield ""
    if lines:
        yield from lines
        yield ""
    if o.only in "ends":
        yield from ends(ruler, total * 0.12)
        yield ""
    yield "`?`: the interval is wider than ±%.1f %%: at a load of %.0f a step's CPU time itself varies that much." % (
        100 * RESOLVED, os.getloadavg()[1])


def put(path, lines):
    """In place of the document's section, or at its end."""
    with open(path) as f:
        text = f.read()
    before, _, rest = text.partition(HEADING + "\n")
    after = re.search(r"^## ", rest, re.M)
    with open(path, "w") as f:
        f.write(before + "\n".join(lines).rstrip("\n") + "\n\n" + (rest[after.start():] if after else ""))


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--python", default="python3")
    p.add_argument("--memgauge", default="bin/memgauge")
    p.add_argument("--minutes", type=float, default=15)
    p.add_argument("--only", default="", help="sizes, modes, twins or ends; or a word of what one of them lists")
    p.add_argument("--write", help="the document whose section is replaced")
    p.add_argument("--self-test", action="store_true")
    o = p.parse_args()
    o.memgauge = os.path.abspath(o.memgauge)
    with tempfile.TemporaryDirectory(prefix="memgauge-cost-") as where:
        ruler, lines = Ruler(o, where), []
        for text in self_test(ruler, o.minutes * 10) if o.self_test else section(ruler):
            print(text, flush=True)
            lines.append(text)
    if o.write:
        put(o.write, lines)
    return int(any("NOT FOUND" in text for text in lines))


if __name__ == "__main__":
    sys.exit(main())
