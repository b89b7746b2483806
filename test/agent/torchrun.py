"""Runs a small training in a process of its own, observed, and reads what it left.

The import of torch takes longer than such a training, so in the short lane one process has imported it and forks the
programs of all tests. In each, torch is yet to be imported, which then takes no time: the agent finds what it would
find in a process that was started for the program, as each is in the long lane."""
import atexit
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import lane
from ringfile import AGENT, S, read_all

HERE = os.path.dirname(os.path.abspath(__file__))
START = """
import json, os, sys, warnings
sys.path[:0] = [%r, %r]
from memgauge._agent import life, recording, state
life.start(os.environ["RUNTIME"])
""" % (AGENT, HERE)
PREAMBLE = START + """
import torch
torch.set_num_threads(1); torch.manual_seed(0)
from memgauge._agent.observe import observer
nn = torch.nn
def net(width=8):
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
def train(model, optimizer, steps, micro=1):
    for _ in range(steps):
        for _ in range(micro):
            model(torch.ones(2, 8)).sum().backward()
        optimizer.step(); optimizer.zero_grad()
def say(**what):
    print(json.dumps(what))
"""

# Of torch._dynamo the agent notices the import too. A program ends as Python has it up to the point where modules are
# taken apart, for which torch needs a second.
LOADED = """
import atexit, importlib.util, json, os, sys, threading
import torch
if importlib.util.find_spec("torch._dynamo"):
    import torch._dynamo
class Loaded:
    def __init__(self, names):
        self.modules = {name: sys.modules.pop(name) for name in names if name in sys.modules}
    def find_spec(self, name, path=None, target=None):
        return importlib.util.spec_from_loader(name, self, is_package=True) if name in self.modules else None
    def create_module(self, spec):
        self.spec = self.modules[spec.name].__spec__
        return self.modules.pop(spec.name)
    def exec_module(self, module):
        module.__spec__, module.__loader__ = self.spec, self.spec.loader
print(json.dumps(torch.__version__), flush=True)
for line in sys.stdin:
    if os.fork() == 0:
        request = json.loads(line)
        break
    print(json.dumps(os.wait()[1]), flush=True)
else:
    sys.exit()
for fd, name in enumerate(request["streams"]):
    os.dup2(os.open(name, os.O_RDWR), fd)
os.environ.clear(); os.environ.update(request["env"])
sys.meta_path.insert(0, Loaded(("torch", "torch._dynamo")))
del torch, fd, name, line
try:
    exec(compile(request["code"], "<string>", "exec"))
    request = None
except BaseException:
    sys.excepthook(*sys.exc_info())
threading._shutdown(); atexit._run_exitfuncs(); sys.stdout.flush()
os._exit(request is not None)
"""


class Forker:
    """A process that has imported torch."""

    def __init__(self):
        env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1",
                   MKL_NUM_THREADS="1")      # a child inherits no threads
        self.child = subprocess.Popen([sys.executable, "-c", LOADED], env=env, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, universal_newlines=True, start_new_session=True)
        self.maker, self.version = os.getpid(), json.loads(self.child.stdout.readline())

    def run(self, code, env, timeout):
        """What subprocess.run gives for a program."""
        with tempfile.NamedTemporaryFile() as out, tempfile.NamedTemporaryFile() as err:
            request = {"code": code, "env": env, "streams": [os.devnull, out.name, err.name]}
            timer = threading.Timer(timeout, os.killpg, (self.child.pid, signal.SIGKILL))
            timer.start()
            try:
                self.child.stdin.write(json.dumps(request) + "\n")
                self.child.stdin.flush()
                status = json.loads(self.child.stdout.readline() or "9")
            finally:
                timer.cancel()
            code = -(status & 127) or status >> 8
            return subprocess.CompletedProcess([], code, out.read().decode("utf-8"), err.read().decode("utf-8"))

    def close(self):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()


forker = None


def start_forker():
    """The version of torch."""
    global forker
    if importlib.util.find_spec("torch") is None:
        if "torch" in os.environ.get("MEMGAUGE_REQUIRE", "").split(","):
            raise ImportError("no torch in this Python, though MEMGAUGE_REQUIRE names it")
        raise unittest.SkipTest("no torch in this Python")
    if forker is None:
        forker = Forker()
        atexit.register(end_forker)
    return tuple(int(part) for part in forker.version.split("+")[0].split(".")[:2])


def end_forker():
    if os.getpid() == forker.maker:    # and not in what a test has forked
        forker.close()


class Trace:
    def __init__(self, ring, record):
        stage, flags, self.device, name, self.step, self.allocated, self.max_allocated, self.cached, self.max_cached = record.fields
        self.ts, self.stage, self.module = record.ts, stage, ring.name(name)
        self.root, self.optimizer = bool(flags & S.FLAG_ROOT), bool(flags & S.FLAG_OPTIMIZER)

    def __repr__(self):
        return "%d %s %s" % (self.step, self.module,
                             ("pre forward", "post forward", "pre step", "post step")[self.stage])


class Step:
    def __init__(self, record, before):
        flags, self.steps, self.step, self.agent_ns, self.duration, self.work, self.tokens = record.fields
        self.rss = self.anon = self.max_rss = S.NOT_TAKEN
        if before is not None and before.kind == "host":
            step, self.rss, self.anon, self.max_rss = before.fields[2:6]
            assert step == self.step, (step, self.step)
        self.ts, self.sampled, self.inference = record.ts, bool(flags & S.FLAG_SAMPLED), bool(flags & S.FLAG_INFERENCE)


class Run:
    """What the rings of one process say."""

    def __init__(self, rings, out, err):
        self.rings, self.out, self.err = rings, out, err
        self.ring = rings[-1] if rings else None
        self.events = [event for ring in rings for event in ring.events()]
        records = self.ring.records if self.ring else []
        self.trace = [Trace(self.ring, r) for r in records if r.kind == "trace"]
        self.steps = [Step(r, before) for before, r in zip([None] + records, records) if r.kind == "step_end"]
        self.heaps = [r.fields for r in records if r.kind == "heap"]
        self.devices = [r.fields for r in records if r.kind == "device"]
        self.overheads = [(self.ring.name(r.fields[2]),) + r.fields[3:] for r in records if r.kind == "overhead"]

    @property
    def counted(self):
        return sum(s.steps for s in self.steps if not s.inference)

    def rows(self, step):
        return [(t.stage, t.module) for t in self.trace if t.step == step]

    def said(self):
        return json.loads(self.out.splitlines()[-1])


class TorchCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.torch = start_forker()

    def run_code(self, code, timeout=240, quiet=True, preamble=PREAMBLE, fresh=bool(lane.SCALE), **env):
        """The Run of the process, or with forks {pid: Run}; it must end well, say nothing on stderr, and have no
        error. fresh: it is started for this, and imports torch itself."""
        runtime = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, runtime, True)
        for name in ("rings", "ctl"):
            os.mkdir(os.path.join(runtime, name))
        env = dict(os.environ, RUNTIME=runtime, PYTHONDONTWRITEBYTECODE="1", **env)
        if fresh:
            done = subprocess.run([sys.executable, "-c", preamble + code], env=env, timeout=timeout,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  universal_newlines=True)
        else:
            done = forker.run(preamble + code, env, timeout)
        self.assertEqual(done.returncode, 0, done.stderr)
        if quiet:
            self.assertEqual(done.stderr, "")
        by_pid = {}
        for (pid, _), ring in sorted(read_all(runtime).items()):
            by_pid.setdefault(pid, []).append(ring)
        self.runs = {pid: Run(rings, done.stdout, done.stderr) for pid, rings in by_pid.items()}
        for run in self.runs.values():
            self.assertEqual([e for e in run.events if e[0] == "error"], [])
        with_steps = [run for run in self.runs.values() if run.steps]
        return with_steps[0] if len(with_steps) == 1 else Run([], done.stdout, done.stderr)
