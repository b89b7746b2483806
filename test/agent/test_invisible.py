"""Tools that look at a program's code see the program's, and not ours: coverage, tracers, profilers."""
import importlib.util

import subprocess
import sys
import unittest

from launch import PRELUDE, Home

PROGRAM = PRELUDE.replace("from memgauge._agent.record import ring as ringmodule\n", "") + """
import subject
wait_ring()
recording.ring(large=True)
state.event("here"); state.error("x")
pid = os.fork()
if pid == 0: os._exit(0)
os.waitpid(pid, 0)
subject.work(5)
"""
SUBJECT = """
def work(x):
    if x > 3:
        return x + 1
    return x


def never():
    return 1
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        self.script = self.home.write("script.py", PROGRAM)
        self.home.write("subject.py", SUBJECT)


class Names(Case):
    def test_no_code_of_ours_has_a_file(self):
        """Coverage goes by this: a name in angle brackets is no file (coverage/inorout.py, "original file name is not
        real")."""
        code = PRELUDE + """
import types
def codes(value, seen):
    if value not in seen:
        seen.add(value)
        for c in value.co_consts:
            if isinstance(c, types.CodeType): codes(c, seen)
import memgauge._agent.observe.observer, memgauge._agent.gauges.memory, memgauge._agent.census.census, memgauge._agent.evaluate.job
found = set()
for name, module in list(sys.modules.items()):
    if name.startswith("memgauge.") and module.__name__ == name:
        path = "/".join(name.split(".") + ["__init__"] * hasattr(module, "__path__"))
        assert module.__file__ == "<memgauge>/0123abcd/lib/%s.py" % path, module.__file__
        for value in list(vars(module).values()):
            if isinstance(value, type) and value.__module__ == name:
                for method in vars(value).values():
                    if isinstance(method, types.FunctionType): codes(method.__code__, found)
            elif isinstance(value, types.FunctionType) and value.__module__ == name:
                codes(value.__code__, found)
assert len(found) > 400, len(found)
print({c.co_filename.split("/")[0] for c in found}, state.agent_hash())
"""
        for _ in range(2):      # compiled, then read as bytecode
            done = self.home.run(code)
            self.assertEqual((done.stdout, done.stderr), ("{'<memgauge>'} 0123abcd\n", ""))

    def test_a_tracer_can_tell(self):
        done = self.home.run(PRELUDE + """
files = set()
sys.settrace(lambda frame, event, arg: files.add(frame.f_code.co_filename))
import memgauge._agent.observe.observer
state.event("x"); recording.ring(large=True)
sys.settrace(None)
print(sorted(f for f in files if "/memgauge/" in f and not f.startswith("<memgauge>/0123abcd/lib/memgauge/")))
""")
        self.assertEqual((done.stdout, done.stderr), ("[]\n", ""))


class Coverage(Case):
    def measure(self, env, **core):
        done = subprocess.run([sys.executable, "-m", "coverage", "run", "--branch", self.script], env=dict(env, **core),
                              cwd=self.home.directory,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return subprocess.run([sys.executable, "-m", "coverage", "report", "-m"], cwd=self.home.directory,
                              universal_newlines=True,
                              stdout=subprocess.PIPE, timeout=120).stdout

    def test_without_source(self):
        """Results are those of the program alone, whatever way coverage looks."""
        if importlib.util.find_spec("coverage") is None:
            self.skipTest("coverage is not installed for %s; scripts/testenv installs it beside torch" % sys.executable)
        for core in ("ctrace", "sysmon", "pytrace"):
            with self.subTest(core):
                if core == "sysmon" and sys.version_info < (3, 12):
                    continue    # there is no sys.monitoring
                report = self.measure(self.home.env(), COVERAGE_CORE=core)
                lines = [line.split() for line in report.splitlines() if ".py" in line]
                self.assertEqual([line[0] for line in lines], ["script.py", "subject.py"], report)


if __name__ == "__main__":
    unittest.main()
