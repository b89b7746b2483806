"""The classes for programs, against a stand-in for the memgauge command: callbacks, faults, forks."""
import builtins
import importlib
import json
import os
import stat
import sys
import tempfile
import threading
import unittest
from unittest import mock

import memgauge
from memgauge import allocator, feed, leaks, tools
from memgauge._agent import torchhook
from memgauge._agent.gauges import heap
from memgauge.integrations import gauges

ONE_PYTHON = "programs that call the command"

RISK = {"risk_level": "high", "confidence": 0.8, "current_usage_percent": 88.5, "growth_rate_mb_per_sec": 12.3,
        "predicted_oom_time_seconds": 45, "predicted_oom_low_seconds": 38.9, "predicted_oom_high_seconds": 53.0,
        "recommendation": "smaller", "recommendations": ["smaller"]}

STAND_IN = """#!%s
import json, sys
def say(**message):
    print(json.dumps(message), flush=True)
if %r:
    sys.exit("memgauge: feed: no device 7")
say(type="ready", devices=["host", "0"])
say(type="warning", device="0", text="[WARNING] OOM warning: GPU 0\\n", risk=%r)
say(type="blocks")
told = None
for line in sys.stdin:
    request = json.loads(line)
    told = request.get("blocks") or told
    if request.get("report") == "die":
        sys.exit("memgauge: feed: broken")
    if request.get("report"):
        say(type="report", report={"report": request["report"], "args": sys.argv[1:], "told": told and sorted(told),
                                   "devices": {"0": {"risk_assessment": %r}}, "summary": {}})
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.home = tempfile.mkdtemp()
        self.addCleanup(lambda: __import__("shutil").rmtree(self.home))
        self.stand_in()

    def stand_in(self, fails=False):
        path = os.path.join(self.home, "memgauge")
        with open(path, "w") as f:
            f.write(STAND_IN % (sys.executable, fails, RISK, RISK))
        os.chmod(path, stat.S_IRWXU)
        before = os.environ.get("MEMGAUGE_BINARY")
        os.environ["MEMGAUGE_BINARY"] = path
        self.addCleanup(lambda: os.environ.pop("MEMGAUGE_BINARY") if before is None
                        else os.environ.update(MEMGAUGE_BINARY=before))


class Classes(Case):
    def test_lazily(self):
        self.assertIs(memgauge.MemoryProfiler, tools.MemoryProfiler)
        self.assertIn("OOMDetector", dir(memgauge))
        with self.assertRaises(AttributeError):
            memgauge.NoSuchThing

    def test_profiler(self):
        path = os.path.join(self.home, "r.json")
        profiler = memgauge.MemoryProfiler(sampling_interval=0.5, devices=[0, "host"])
        with profiler:
            self.assertTrue(profiler.is_monitoring)
            profiler.start_monitoring()     # a second time is nothing
        self.assertFalse(profiler.is_monitoring)
        report = profiler.generate_report(path)
        self.assertEqual(report["report"], "profile")
        self.assertEqual(report["args"][:8], ["feed", "--pid", str(os.getpid()), "--interval", "0.5s", "--devices", "0",
                                              "--devices"])
        with open(path) as f:
            self.assertEqual(json.load(f), report)
        self.assertEqual(sorted(os.listdir(self.home)), ["memgauge", "r.json"])
        with self.assertRaises(OSError):
            profiler.generate_report(os.path.join(self.home, "no", "where.json"))

    def test_both_forms_of_callbacks(self):
        got, done = [], threading.Event()
        detector = memgauge.OOMDetector(threshold=85.0,
                                        warning_callback=lambda prediction: got.append((prediction.device_id,
                                            prediction)))

        def callback(device_id, prediction):
            got.append((device_id, prediction))
            done.set()
        # the user's fault; the others still get theirs
        detector.add_warning_callback(lambda device_id, prediction: 1 / 0)
        detector.add_warning_callback(callback)
        with self.assertLogs("memgauge", "WARNING") as logged:
            detector.start_monitoring()
            self.assertTrue(done.wait(30))
            detector.stop_monitoring()
        self.assertRegex("".join(logged.output), "(?s)a callback for OOM warnings failed.*ZeroDivisionError")
        self.assertEqual([d for d, _ in got], [0, 0])
        p = got[0][1]
        self.assertEqual((p.risk_level.value, p.confidence, p.current_usage_percent, p.growth_rate_mb_per_sec,
                          p.predicted_oom_time_seconds,
                          p.predicted_oom_interval, p.recommendation),
                          ("high", 0.8, 88.5, 12.3, 45, (38.9, 53.0), "smaller"))
        self.assertIs(p.risk_level, memgauge.RiskLevel.HIGH)
        self.assertEqual(list(detector.get_predictions()), [0])

    def test_debugging_shows_what_happens(self):
        """logging.basicConfig(level=logging.DEBUG), as the Tiny Torch document has it."""
        with self.assertLogs("memgauge", "DEBUG") as logged:
            with memgauge.MemoryDebugger(warning_callback=lambda prediction: None) as debugger:
                debugger.get_status_report()
        said = "\n".join(logged.output)
        self.assertRegex(said, r"runs memgauge.* feed --pid \d+ .*; it watches host, 0\n")
        for kind in ("ready", "warning", "blocks", "report"):
            self.assertIn("sends: %s\n" % kind, said)
        self.assertRegex(said, r"process \d+ ends$")

    def test_blocks(self):
        with memgauge.FragmentationAnalyzer() as analyzer:
            self.assertEqual(analyzer.analyze()["told"], ["malloc_info", "segments"])

    def test_several_machines(self):
        with memgauge.DistributedMemoryMonitor(role="worker", master_host="10.0.0.1", port=29501, devices=["host"],
                                               token_file="join.token", node_name="n1") as monitor:
            self.assertEqual(monitor.get_status_report()["args"], [
                "distributed", "--pid", str(os.getpid()), "--interval", "3s", "--devices", "host", "--feed", "--role",
                "worker", "--master-host", "10.0.0.1", "--port", "29501", "--token-file", "join.token", "--name", "n1"])
        with self.assertRaisesRegex(ValueError, "role"):
            memgauge.DistributedMemoryMonitor(role="boss")

    def test_wrong_arguments(self):
        for make in (lambda: memgauge.MemoryProfiler(0), lambda: memgauge.OOMDetector(99, 90),
                     lambda: memgauge.OOMDetector(-1)):
            with self.assertRaises(ValueError):
                make()


HALF_TORCH = """
import builtins
builtins.during()       # the import is under way
from . import cuda
"""
HALF_CUDA = """
def is_available(): return False
def is_initialized(): return False
"""


class ImportOfTorch(Case):
    """Everything may be started before the program imports torch, while it does, and afterwards."""

    def setUp(self):
        super().setUp()
        os.mkdir(os.path.join(self.home, "torch"))
        for name, text in ("__init__", HALF_TORCH), ("cuda", HALF_CUDA):
            with open(os.path.join(self.home, "torch", name + ".py"), "w") as f:
                f.write(text)
        real = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "torch"}
        sys.path.insert(0, self.home)
        self.addCleanup(lambda: (self.forget(), sys.path.remove(self.home), sys.modules.update(real)))

    def forget(self):
        for name in ("torch.cuda", "torch"):
            sys.modules.pop(name, None)
        builtins.__dict__.pop("during", None)

    def around_the_import(self, begin, end):
        for moment in ("before", "during", "after"):
            with self.subTest(moment):
                running = []
                builtins.during = lambda: running.append(begin()) if moment == "during" else None
                if moment == "before":
                    running.append(begin())
                importlib.invalidate_caches()
                import torch
                self.assertFalse(torch.cuda.is_initialized())
                if moment == "after":
                    running.append(begin())
                end(running[0])
                self.forget()

    def test_classes(self):
        for kind in (memgauge.MemoryDebugger, memgauge.MemoryProfiler, memgauge.OOMDetector,
                     memgauge.FragmentationAnalyzer, memgauge.DistributedMemoryMonitor, memgauge.MemoryLeakDetector):
            def begin():
                tool = kind()
                if hasattr(tool, "add_warning_callback"):
                    tool.add_warning_callback(lambda device, prediction: None)
                tool.start_monitoring()
                tool.get_status_report()
                return tool

            def end(tool):
                tool.stop_monitoring()
                self.assertFalse([call for call in log.mock_calls if call[2].get("exc_info")])
                report = tool.generate_report()
                if kind is not memgauge.MemoryLeakDetector:
                    self.assertEqual(report["told"], ["malloc_info", "segments"] if kind._tell_blocks else None)

            with self.subTest(kind.__name__), mock.patch.object(feed, "log") as log:
                self.around_the_import(begin, end)

    def test_the_rest(self):
        def begin():
            detector = memgauge.MemoryLeakDetector()
            memory = gauges.Memory()
            self.addCleanup(memory.close)
            return (detector.manual_check()["level"], list(detector.force_cleanup()), max(memory.read()),
                    torchhook.cuda())

        self.around_the_import(begin, lambda got: self.assertEqual(got, ("ok", ["host"], "private memory", None)))

    def test_one_place_tells(self):
        seen = []
        self.around_the_import(lambda: seen.append(torchhook.loaded("torch")), lambda _: None)
        self.assertEqual([module and module.__name__ for module in seen], [None, None, "torch"])


class Unobserved(Case):
    """MemoryLeakDetector without a session: growth is all that it knows."""

    def test_undecided(self):
        with memgauge.MemoryLeakDetector() as detector:
            pass
        report = detector.generate_report()
        self.assertEqual((report["verdict"], report["steps"], report["session"]), ("undecided", 0, None))
        self.assertIn("memgauge run", report["missing"])
        self.assertIn("threshold", report["missing"])

    def test_growth_beyond_the_threshold(self):
        detector = memgauge.MemoryLeakDetector(threshold=100)
        for rate, verdict in ((5.0, "leak"), (1.0, "undecided")):       # MiB a second
            base = detector._base["host"] >> 20
            detector.checks = [{"time": float(i), "memory_mb": {"host": base + rate * i}} for i in range(2000)]
            last = dict(detector.checks[-1], level="ok")
            with mock.patch.object(detector, "manual_check", lambda: last):
                report = detector.check_for_leaks()
            self.assertEqual((report["verdict"], report["findings"][0]["verdict"]), (verdict, verdict))
            self.assertAlmostEqual(report["findings"][0]["rate_mb_per_second"], rate, delta=0.01)
            self.assertEqual(len(report["leak_events"]), report["monitoring_summary"]["leaks_detected"])
            self.assertEqual(report["devices"]["host"]["leak_detected"], verdict == "leak")
            self.assertIn(verdict, detector._text(report))

    def test_no_advice_that_needs_a_session(self):
        detector = memgauge.MemoryLeakDetector(warning_threshold_mb=1, critical_threshold_mb=1e9)
        detector._base["host"] = 0
        with self.assertLogs("memgauge", "WARNING") as logs:
            detector.manual_check()
        self.assertIn("`memgauge run -- python …` tells", logs.output[0])
        self.assertNotIn(str(os.getpid()), logs.output[0])
        with mock.patch.object(leaks, "observed", lambda: True), self.assertLogs("memgauge", "WARNING") as logs:
            detector._warn(detector.checks[-1])
        self.assertIn("`memgauge %d leak` tells" % os.getpid(), logs.output[0])


class Faults(Case):
    def test_it_says_why_it_did_not_start(self):
        self.stand_in(fails=True)
        with self.assertRaisesRegex(feed.FeedError, "no device 7"):
            memgauge.MemoryProfiler().start_monitoring()

    def test_no_command(self):
        os.environ["MEMGAUGE_BINARY"] = os.path.join(self.home, "nothing")
        with self.assertRaisesRegex(feed.FeedError, "not found"):
            memgauge.MemoryProfiler().start_monitoring()

    def test_it_dies(self):
        f = feed.Feed([])
        with self.assertRaisesRegex(feed.FeedError, "broken"):
            f.report("die")
        with self.assertRaises(feed.FeedError):     # and again, at once
            f.report("profile")
        f.close()
        f.close()

    def test_nothing_watched(self):
        with self.assertRaisesRegex(feed.FeedError, "start_monitoring"):
            memgauge.MemoryProfiler().get_status_report()

    def test_fork(self):
        profiler = memgauge.MemoryProfiler()
        profiler.start_monitoring()
        pid = os.fork()
        if pid == 0:
            try:
                profiler.get_status_report()
                os._exit(1)
            except feed.FeedError:
                profiler.stop_monitoring = None
                os._exit(0)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        self.assertEqual(profiler.get_status_report()["report"], "profile")
        profiler.stop_monitoring()

    def test_no_child_is_left(self):
        profiler = memgauge.MemoryProfiler()
        profiler.start_monitoring()
        child = profiler._feed._child
        profiler.stop_monitoring()
        self.assertIsNotNone(child.returncode)


class Strangers(Case):
    """Another user may have put files into a directory that everybody can write."""

    def plant(self, name):
        folder = os.path.join(self.home, "tmp")
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o1777)
        path, theirs = os.path.join(folder, name), os.path.join(folder, name.split("/")[0])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write("#!/bin/false\n")
        os.chmod(path, 0o755)
        us = os.getuid()
        if us == 0:
            os.chown(theirs, 65534, 65534)  # else we are somebody else from now on
        other = mock.patch.object(os, "geteuid", return_value=us + 1)
        other.start()
        self.addCleanup(other.stop)
        return path

    def test_command_of_a_stranger(self):
        with mock.patch.dict(os.environ, MEMGAUGE_BINARY=self.plant("memgauge")):
            with self.assertRaisesRegex(feed.FeedError, "may be another user's"):
                feed.binary()

    def test_library_of_a_stranger(self):
        for name in (allocator.LIBRARY, "lib/" + allocator.LIBRARY):
            path = self.plant(name)
            with self.subTest(name), mock.patch.object(allocator, "_library", None), \
                    mock.patch.dict(os.environ, MEMGAUGE_ALLOC_LIBRARY=""), \
                    mock.patch.object(allocator, "library_paths", return_value=[path]), \
                    mock.patch.object(allocator.ctypes, "CDLL", side_effect=AssertionError("it was loaded")):
                with self.assertRaisesRegex(OSError, "not loaded from %s: another user" % path):
                    allocator.library()


class Heap(unittest.TestCase):
    def test_told(self):
        told = json.loads(heap.told())
        self.assertEqual(told["segments"], [])
        if told["malloc_info"] is not None:
            self.assertTrue(told["malloc_info"].startswith("<malloc"))

    def test_asked_stays_within_the_budget(self):
        from memgauge._agent import allowance, state
        before, budget = allowance.readers, state.settings.budget
        try:
            allowance.readers, state.settings.budget = allowance.Allowance(), 1e-9    # 30 ns of a minute
            self.assertIn("segments", json.loads(heap.asked()))
            self.assertIn("the budget", json.loads(heap.asked())["spent"])
        finally:
            allowance.readers, state.settings.budget = before, budget

    def test_segments(self):
        class cuda:
            is_initialized = staticmethod(lambda: True)
            memory_snapshot = staticmethod(lambda: [{"device": 0, "total_size": 20, "blocks": [
                {"size": 8, "state": "active_allocated"}, {"size": 12, "state": "inactive"}]}])

        class torch:
            pass
        torch.cuda = cuda
        before = sys.modules.get("torch")
        sys.modules["torch"] = torch
        try:
            self.assertEqual(heap.cuda_segments(), [[0, 20, [[8, "active_allocated"], [12, "inactive"]]]])
        finally:
            del sys.modules["torch"]
            if before is not None:
                sys.modules["torch"] = before


if __name__ == "__main__":
    unittest.main()
