"""Runs a small training in a process of its own, observed, and reads what it left."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from ringfile import AGENT, S, read_all

HERE = os.path.dirname(os.path.abspath(__file__))
PREAMBLE = """
import json, os, sys, warnings
sys.path[:0] = [%r, %r]
from memgauge._agent import life, recording, state
life.start(os.environ["RUNTIME"])
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
""" % (AGENT, HERE)


def torch_version():
    try:
        import torch
    except ImportError as why:
        if "torch" in os.environ.get("MEMGAUGE_REQUIRE", "").split(","):
            raise
        raise unittest.SkipTest("no torch in this Python: %s" % why)
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


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
        flags, self.steps, self.step, self.agent_ns, self.duration = record.fields
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
        cls.torch = torch_version()

    def run_code(self, code, timeout=240, quiet=True, **env):
        """The Run of the process, or with forks {pid: Run}; it must end well, say nothing on stderr, and have no
        error."""
        runtime = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, runtime, True)
        for name in ("rings", "ctl"):
            os.mkdir(os.path.join(runtime, name))
        env = dict(os.environ, RUNTIME=runtime, PYTHONDONTWRITEBYTECODE="1", **env)
        done = subprocess.run([sys.executable, "-c", PREAMBLE + code], env=env, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
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
