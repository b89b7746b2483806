"""The guard: what it reads, when it tells that memory runs out, what it does at the end of a step."""
import json
import os
import random
import subprocess
import unittest

from lane import times
from launch import PRELUDE, Home
from ringfile import AGENT, S  # noqa: F401  (puts the agent on the path)

import sys
sys.path.insert(0, AGENT)
from memgauge._agent.guard import memories  # noqa: E402
from memgauge._agent.guard.ahead import Ahead  # noqa: E402
from memgauge._agent.guard.memories import Reading  # noqa: E402

MIB = 1 << 20
LIMIT = 1024 * MIB


def policy(*rules, **more):
    whole = dict({"name": "test", "every": 0.001, "floor": 0, "dry_run": False, "clear": [], "cap": [],
                  "checkpoint": "",
                  "rules": [dict({"name": "rule", "again": 30}, **rule) for rule in rules]}, **more)
    return json.dumps(whole)


class AheadTest(unittest.TestCase):
    """Levels, one a step, in MiB of a limit of 1 GiB: at which step is the alarm?"""

    def alarm(self, levels, peaks=None, within=3):
        ahead = Ahead()
        for step, level in enumerate(levels):
            peak = peaks[step] if peaks else level
            ahead.add(step + 1, Reading(int(level * MIB), LIMIT, int(max(peak, level) * MIB)))
            if ahead.risk(LIMIT, within):
                return step + 1
        return None

    def dies(self, levels, peaks=None):
        return next((n + 1 for n, level in enumerate(levels) if max(level, peaks[n] if peaks else 0) > 1024), None)

    def test_leaks(self):
        rng = random.Random(1)
        for run in range(times(40, 200)):
            pace, base, noise = rng.uniform(2, 40), rng.uniform(200, 500), rng.choice((0, 1, 10))
            levels = [base + pace * n + rng.uniform(0, noise) for n in range(600)]
            died, told = self.dies(levels), self.alarm(levels)
            self.assertIsNotNone(told, (run, pace))
            self.assertLess(told, died, (run, pace))
            self.assertGreater(told, died - 21 / pace - 8 - 12 * noise / pace, (run, pace, noise))

    def test_leaps(self):
        """An evaluation every 20 steps that keeps what it made."""
        for leap in (30, 60, 120):
            levels = [300 + leap * (n // 20) for n in range(800)]
            self.assertLess(self.alarm(levels), self.dies(levels), leap)

    def test_sawtooth(self):
        rng = random.Random(2)
        for run in range(times(40, 200)):
            top, base, length = rng.uniform(700, 960), rng.uniform(200, 400), rng.randrange(40, 200)
            levels = [base + (top - base) * (n % length) / length for n in range(1000)]
            self.assertIsNone(self.alarm(levels), (run, top, length))

    def test_warm_up(self):
        rng = random.Random(3)
        for run in range(times(40, 200)):
            top, base, length = rng.uniform(700, 950), rng.uniform(200, 400), rng.uniform(10, 60)
            levels = [top - (top - base) * 2.718 ** (-n / length) for n in range(500)]
            self.assertIsNone(self.alarm(levels), (run, top, length))

    def test_evaluation_peaks(self):
        levels = [500.0] * 300
        peaks = [950 if n % 50 == 49 else 500 for n in range(300)]
        self.assertIsNone(self.alarm(levels, peaks))

    def test_lowered_by_us(self):
        """After we have lowered it, the pace stays known, and the level at which it was bad."""
        ahead = Ahead()
        for step in range(1, 200):
            ahead.add(step, Reading(min(step, 99) * 10 * MIB, LIMIT))
            if ahead.risk(LIMIT, 3):
                break
        ahead.freed(300 * MIB)
        self.assertIsNone(ahead.risk(LIMIT, 3))
        level, told = 300, None
        for step in range(step + 1, step + 200):
            level += 10
            ahead.add(step, Reading(level * MIB, LIMIT))
            if ahead.risk(LIMIT, 3):
                told = level
                break
        self.assertIsNotNone(told)
        self.assertLess(told, 1024)


class Cgroups(unittest.TestCase):
    def tree(self, files):
        home = Home()
        self.addCleanup(home.close)
        for name, text in files.items():
            home.write("root/" + name, text)
        return home.directory + "/root"

    def test_v2_in_a_container(self):
        root = self.tree({"proc/self/cgroup": "0::/pod/job\n",
                          "proc/self/mountinfo": "30 1 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
                          "sys/fs/cgroup/job/memory.max": "1000\n", "sys/fs/cgroup/memory.max": "max\n"})
        self.assertEqual(memories.levels(root), [(root + "/sys/fs/cgroup/job", 2), (root + "/sys/fs/cgroup", 2)])

    def test_v1_beside_v2(self):
        root = self.tree({"proc/self/cgroup": "4:cpu:/x\n2:memory:/a/b\n0::/\n", "proc/self/mountinfo":
                          "29 1 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
                          "31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
                          "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "5\n"})
        mount = root + "/sys/fs/cgroup/memory"
        self.assertEqual(memories.levels(root), [(mount + "/a/b", 1), (mount + "/a", 1), (mount, 1)])

    def test_nonsense(self):
        for text in ("", ":::", "2:memory", "0::\n" * 3, "\x00\xff"):
            root = self.tree({"proc/self/cgroup": text, "proc/self/mountinfo": text})
            self.assertEqual(memories.levels(root), [])


LOOP = PRELUDE + """
import memgauge
kept, outputs = [], []
"""


class Acting(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def run_guarded(self, code, guard, code_of_end=0, **env):
        done = self.home.run(LOOP + code, MEMGAUGE_GUARD=guard, **env)
        self.assertEqual(done.returncode, code_of_end, done.stderr)
        events = [e for ring in self.home.rings().values() for e in ring.events()]
        self.assertEqual([e for e in events if e[0] == "error"], [])
        self.codes = [c for ring in self.home.rings().values() for c in ring.codes("guard")]
        return done, [e[1] for e in events if e[0] == "guard"]

    EVALUATIONS = """
mine = outputs if sys.argv[1:] == ["held"] else None
for step in range(250):
    kept.append(step)
    if step % 50 == 49:
        outputs.extend(bytearray(b"x") * MIB for _ in range(60))
        if sys.argv[1:] == ["bounded"]:
            time.sleep(.01)
            memgauge.step()
            del outputs[:]
    time.sleep(.002)
    memgauge.step()
    end = time.monotonic() + 20     # the guard looks as often as its budget allows
    while outputs and 99 <= step < 249 and not sys.argv[1:] and time.monotonic() < end:
        kept.append(step)
        time.sleep(.002)
        memgauge.step()
print(len(outputs), len(kept) >= 250)
""".replace("MIB", str(MIB))
    CLEAR = {"kind": "grown", "memory": "process", "bytes": 40 * MIB,
             "do": [["clear", ["__main__.outputs", "__main__.kept"]]]}

    def test_clears_what_evaluations_left(self):
        """The list is cleared once it has grown again; one that each step fills is left alone."""
        done, told = self.run_guarded(self.EVALUATIONS, policy(self.CLEAR))
        self.assertEqual(done.stdout.split(), ["60", "True"])    # the last evaluation's: no step came after it
        cleared = [t for t in told if "clear __main__.outputs (" in t and ", helped, " in t]
        self.assertGreaterEqual(len(cleared), 1, told)
        self.assertIn("guard: rule: clear __main__.outputs (", done.stderr)
        self.assertEqual(self.codes.count(S.CODE_HOLDER), 1, told)
        self.assertIn("__main__.outputs", told)

    def test_leaves_what_may_be_in_use(self):
        """A list that the program empties itself, one that something else refers to, and any below the floor."""
        for words, more, left in (("held", {}, "300"), ("bounded", {}, "0"), ("floor", {"floor": .999}, "300")):
            with self.subTest(words):
                code = "import sys; sys.argv[1:] = [%r]\n" % words + self.EVALUATIONS
                done, told = self.run_guarded(code, policy(dict(self.CLEAR, again=0), **more))
                self.assertEqual(done.stdout.split(), [left, "True"], told)
                self.assertEqual([t for t in told if "clear __main__" in t], [], told)

    def test_left_out_after_two(self):
        rule = {"kind": "grown", "memory": "process", "bytes": 20 * MIB, "again": 0,
                "do": [["collect"], ["warn"]]}
        done, told = self.run_guarded("""
for step in range(120):
    kept.append(bytearray(1 << 20))
    time.sleep(.002)
    memgauge.step()
""", policy(rule))
        self.assertEqual(len([t for t in told if "collect " in t and "no help" in t]), 2, told)
        self.assertEqual(len([t for t in told if "collect is left out from now on" in t]), 1, told)
        self.assertEqual([self.codes.count(c) for c in (S.CODE_VAIN, S.CODE_LEFT_OUT)], [2, 1], self.codes)
        self.assertIn(S.CODE_WARNED, self.codes)
        self.assertIn("rule: process has grown by", done.stderr)

    def test_stops_with_a_checkpoint(self):
        """RLIMIT_DATA ends the program at 300 MiB more than it has; the guard ends it before, with what it saves."""
        rule = {"kind": "oom_within", "steps": 5, "do": [["collect"], ["stop"]]}
        code = """
import resource
data = int(open("/proc/self/statm").read().split()[5]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_DATA, (data + (300 << 20), resource.RLIM_INFINITY))
def save():
    print("saved", step)
step = 0
try:
    while True:
        step += 1
        kept.append(bytearray(4 << 20))
        time.sleep(.01)     # the guard looks at most steps then
        memgauge.step()
finally:
    print("left")
"""
        done, told = self.run_guarded(code, policy(rule, checkpoint="__main__:save"), 75)
        self.assertEqual(done.stdout.split()[::2], ["saved", "left"])
        self.assertGreater(int(done.stdout.split()[1]), 55)
        self.assertTrue(any(": stopped with a checkpoint: rlimit is at" in t for t in told), told)
        self.assertEqual(self.codes.count(S.CODE_STOPPED), 1)
        done, told = self.run_guarded(code, policy(rule), 1)
        self.assertIn("MemoryError", done.stderr)
        self.assertTrue(any("no function that saves a checkpoint is known" in t for t in told), told)
        self.assertIn("if memory runs out, this training can't be stopped with a checkpoint", done.stderr)
        self.assertIn("stop: NOT DONE", done.stderr)
        self.assertIn(S.CODE_FAILED, self.codes)
        code = code.replace('print("saved", step)', 'raise OSError("disk full")')
        done, told = self.run_guarded(code, policy(rule, checkpoint="__main__:save"), 1)
        self.assertIn("THE CHECKPOINT FAILED: OSError('disk full')", done.stderr)
        self.assertIn("the weights could not be saved either: LookupError('no module of torch is known')", done.stderr)
        self.assertEqual(self.codes.count(S.CODE_STOPPED), 1)    # the first run's

    def test_loop_that_asks(self):
        rule = {"kind": "every", "do": [["stop"]]}
        rule.update(kind="steps", steps=20)
        done, _ = self.run_guarded("""
with memgauge.guard(checkpoint=lambda: print("saved")) as guard:
    for step in range(1000):
        memgauge.step()
        if guard.should_stop:
            break
print(step)
""", policy(rule))
        self.assertEqual(done.stdout.split()[0], "saved")
        self.assertLess(int(done.stdout.split()[1]), 400)

    def test_dry_run_and_cap(self):
        code = """
for step in range(300):
    kept.append(step)
    time.sleep(.001)
    memgauge.step()
print(len(kept))
"""
        cap = [{"list": "__main__.kept", "length": 10}]
        done, told = self.run_guarded(code, policy(cap=cap, dry_run=True))
        self.assertEqual(done.stdout.strip(), "300")
        self.assertTrue(any("would cap" in t for t in told), told)
        done, _ = self.run_guarded(code, policy(cap=cap))
        self.assertLess(int(done.stdout), 300)      # how often the guard looks, its budget says

    def test_settings(self):
        done, _ = self.run_guarded("""
settings = memgauge.policy()
print(settings.training["batch_size"], settings.get("model.d_model"), settings.get("model.layers", 6),
      settings.optimizer.get("lr", .5))
for step in range(3):
    memgauge.step()
""", policy(), MEMGAUGE_POLICY='{"training": {"batch_size": 4}, "model": {"d_model": 512}}')
        self.assertEqual(done.stdout.split(), ["4", "512", "6", "0.5"])
        read = [e[1] for ring in self.home.rings().values() for e in ring.events() if e[0] == "policy"]
        self.assertEqual(read, ["training.batch_size", "model.d_model"])

    def test_functions_that_fail(self):
        rule = {"kind": "steps", "steps": 1, "do": [["call", "__main__:broken"], ["call", "__main__:none"]]}
        done, told = self.run_guarded("""
def broken():
    raise ValueError("as it is")
for step in range(100):
    memgauge.step()
    time.sleep(.001)
""", policy(rule))
        self.assertIn("call failed: ValueError('as it is')", done.stderr)
        self.assertEqual(len([t for t in told if "failed: ValueError('as it is')" in t]), 2, told)
        self.assertEqual(len([t for t in told if "__main__ has no none" in t]), 1, told)


if __name__ == "__main__":
    unittest.main()
