"""Recording PyTorch's memory history, on a torch that has just what it takes."""
import os
import unittest

from launch import PRELUDE, Home

TORCH = """
import sys, types
__version__ = "2.9.0"
calls, observers, queued = [], [], []
_C = types.SimpleNamespace(_cuda_attach_out_of_memory_observer=observers.append,
                           _cuda_isHistoryEnabled=lambda: bool(calls) and calls[-1][0] is not None)
def _record(enabled="all", **more):
    calls.append((enabled, more))
def _dump(path):
    with open(path, "w") as f:
        f.write("snapshot" * size)
size = 1
def start_cuda():   # as torch.cuda._lazy_init: what was queued runs before CUDA is said to be initialized
    for call in queued:
        call()
    cuda.started = True
cuda = types.ModuleType("torch.cuda")
cuda.started = False
cuda.is_initialized = lambda: cuda.started
cuda._lazy_call = lambda call: call() if cuda.started else queued.append(call)
cuda.memory = types.SimpleNamespace(_record_memory_history=_record, _record_memory_history_impl=_record, _dump_snapshot=_dump)
sys.modules["torch.cuda"] = cuda
"""


class Record(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)
        self.home.write("stub/torch/__init__.py", TORCH)

    def run_in(self, code, **env):
        run = self.home.run(PRELUDE
                            + "import torch\nrecording.ring()\nwait_ring()\nfrom memgauge._agent.gauges import history as record\n" + code,
                            path=(os.path.join(self.home.directory, "stub"),), **env)
        self.assertEqual(run.returncode, 0, run.stderr)
        events = [e for ring in self.home.rings().values() for e in ring.events()]
        self.assertEqual([e for e in events if e[0] == "error" and "record" in e[1]], [])
        return run.stdout, [(e[0], e[1]) for e in events if e[0] in ("record", "snapshot")]

    def kept(self):
        return sorted(name for name in os.listdir(self.home.runtime) if "snapshot" in name or "taking" in name)

    def test_on_and_off(self):
        out, events = self.run_in("torch.start_cuda()\nprint(record.recording(torch))\nrecord.on(1000, 'python')\nprint(record.recording(torch))\n"
                                  "print(record.dump(%r))\nrecord.off()\nprint(torch.calls)"
                                  % os.path.join(self.home.directory, "x.pickle"))
        self.assertEqual(out.split("\n")[:4], ["False", "True", "yes",
                                               "[('all', {'stacks': 'python', 'max_entries': 1000}), (None, {})]"])
        self.assertEqual([text for _, text in events], ["memory history on: at most 1000 entries, stacks python",
                                                        "memory history off"])

    def test_what_can_not_be_done(self):
        out, events = self.run_in("""
for prepare in (lambda: None, lambda: (torch.start_cuda(), delattr(torch.cuda.memory, "_record_memory_history_impl"))):
    prepare()
    try:
        record.on(10, "all")
    except RuntimeError as e:
        print(e)
""")
        self.assertEqual(out,
                         "the process does not use CUDA\nPyTorch 2.9.0 can't record a history of allocations: 2.1 is the first that can\n")
        self.assertEqual(events, [])

    def test_from_the_start(self):
        out, events = self.run_in("print(torch.calls)\ntorch.start_cuda()\nprint(torch.calls, len(torch.observers))\n"
                                  "open(os.path.join(record._directory(), 'snapshot.1.pickle'), 'w').close()\n"
                                  "os.utime(os.path.join(record._directory(), 'snapshot.1.pickle'), (1, 1))\n"
                                  "torch.observers[0](0, 1, 2, 3)\ntorch.observers[0](0, 1, 2, 3)\nprint(os.getpid())",
                                  MEMGAUGE_RECORD="500 all 1000")
        out = out.split("\n")
        self.assertEqual(out[:2], ["[]", "[('all', {'stacks': 'all', 'max_entries': 500})] 1"])
        self.assertEqual(self.kept(), ["snapshot.%s.pickle" % out[2]])
        self.assertEqual(os.stat(os.path.join(self.home.runtime, self.kept()[0])).st_mode & 0o777, 0o600)
        self.assertEqual([name for name, _ in events], ["record", "snapshot"])

    def test_a_snapshot_that_is_too_large(self):
        _, events = self.run_in("torch.start_cuda()\ntorch.size = 1000\ntorch.observers[0](0, 1, 2, 3)",
                                MEMGAUGE_RECORD="500 all 1000")
        self.assertEqual(self.kept(), [])
        self.assertIn("larger than 1000 bytes", events[-1][1])

    def test_a_snapshot_that_fails_is_the_programs_no_matter(self):
        run = self.home.run(PRELUDE + "import torch\nrecording.ring()\nwait_ring()\ntorch.start_cuda()\n"
                            "def fail(path): raise MemoryError\ntorch.cuda.memory._dump_snapshot = fail\n"
                            "torch.observers[0](0, 1, 2, 3)\nprint('on')\nlife.detach()\ntorch.observers[0](0, 1, 2, 3)\nprint('on')",
                            path=(os.path.join(self.home.directory, "stub"),), MEMGAUGE_RECORD="500 all 1000")
        self.assertEqual((run.stdout, run.stderr), ("on\non\n", ""))
        self.assertEqual(self.kept(), [])

    def test_nothing_without_being_told(self):
        out, events = self.run_in("torch.start_cuda()\nprint(torch.calls, torch.queued)")
        self.assertEqual((out, events), ("[] []\n", []))


if __name__ == "__main__":
    unittest.main()
