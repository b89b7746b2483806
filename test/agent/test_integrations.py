"""What the callbacks and the plugin for pytest are made of, without the libraries. With them:
test/e2e/frameworks_test.go."""
import json
import os
import random
import stat
import tempfile
import time
import unittest
from unittest import mock

from ringfile import AGENT  # noqa: F401  (puts the agent on the path)
from memgauge import feed
from memgauge.integrations import gauges, growth, sizes, verdicts

ONE_PYTHON = "stand-ins for libraries, and calls of our own"

LEAK = {"verdict": "leak", "findings": [
    {"verdict": "healthy", "rate_mb_per_step": None, "time_to_limit_seconds": None},
    {"verdict": "leak", "memory": "host heap", "rate_mb_per_step": 1.25, "rate_mb_per_second": None,
     "time_to_limit_seconds": 600, "holder": "__main__.kept", "site": None}]}


class Growth(unittest.TestCase):
    XS = list(range(60, 300, 8))

    def line(self, grows, noise, limit, until=None, seed=1):
        pick = random.Random(seed)
        ys = [1e8 + grows * min(x, until or x) + pick.gauss(0, noise) for x in self.XS]
        return growth.beyond(self.XS, ys, limit)

    def test_a_leak_beyond_the_limit(self):
        line = self.line(20_000, 5_000, 10_240)
        self.assertAlmostEqual(line.slope, 20_000, delta=200)
        self.assertTrue(line.low <= line.slope <= line.high)

    def test_what_is_none(self):
        self.assertIsNone(self.line(5_000, 5_000, 10_240))                  # below the limit
        self.assertIsNone(self.line(20_000, 5_000, 10_240, until=150))      # a cache that is full
        self.assertIsNone(growth.beyond(self.XS[:5], [0, 1e6, 2e6, 3e6, 4e6], 1))
        alarms = sum(self.line(0, 1e6, 10_240, seed=seed) is not None for seed in range(200))
        self.assertEqual(alarms, 0)


class Sizes(unittest.TestCase):
    def test_both_ways(self):
        for text, size in (("10 KiB/step", 10240), ("2 GiB", 2 << 30), ("1.5MB", 3 << 19), ("7", 7), ("0 B", 0)):
            self.assertEqual(sizes.parse(text), size)
        for text in ("", "much", "10 kilo", "-1 KiB", "1 KiB/s", None):
            self.assertRaises(ValueError, sizes.parse, text)
        self.assertEqual([sizes.show(n) for n in (0, 1000, 10240, 1 << 21, -(3 << 30), 5 << 50)],
                         ["0 B", "1000 B", "10.0 KiB", "2.00 MiB", "-3.00 GiB", "5120.0 TiB"])


class Peaks(unittest.TestCase):
    def check(self, peak):
        peak.start()
        bytearray(40 << 20)     # touched and given back
        found = peak.stop()["host"]
        self.assertGreater(found, 30 << 20)
        self.assertLess(found, 60 << 20)

    def test_kept_by_the_kernel(self):
        memory = gauges.Memory()
        self.addCleanup(memory.close)
        self.check(gauges.Peak(memory))

    def test_by_looking(self):
        memory, peak = gauges.Memory(), None
        self.addCleanup(memory.close)
        peak = gauges.Peak(memory)
        with mock.patch("builtins.open", side_effect=OSError):
            peak.start()
        kept = bytearray(40 << 20)
        end = time.monotonic() + 20
        while peak._thread.peak < peak.before + (30 << 20) and time.monotonic() < end:
            time.sleep(0.01)
        del kept
        self.assertGreater(peak.stop()["host"], 30 << 20)


class Verdicts(unittest.TestCase):
    """With a stand-in for the command."""

    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.binary = os.path.join(directory.name, "memgauge")
        for patch in (mock.patch.object(feed, "observed", lambda: True), mock.patch.object(verdicts, "FIRST", 0),
                      mock.patch.dict(os.environ, MEMGAUGE_BINARY=self.binary)):
            patch.start()
            self.addCleanup(patch.stop)

    def says(self, text, code=3):
        with open(self.binary, "w") as f:
            f.write("#!/bin/sh\ncat <<'END'\n%s\nEND\nexit %d\n" % (text, code))
        os.chmod(self.binary, stat.S_IRWXU)

    def test_a_leak_is_warned_of_once(self):
        self.says(json.dumps(LEAK))
        asked = verdicts.Verdicts()
        with self.assertLogs("memgauge", "WARNING") as logs:
            metrics, end = None, time.monotonic() + 20
            while metrics is None and time.monotonic() < end:
                metrics = asked.look()
                time.sleep(0.01)
            self.assertEqual(asked.last(), metrics)
        self.assertEqual(metrics, {"memgauge/leak": 1.0, "memgauge/undecided": 0.0,
                                   "memgauge/leak_mib_per_step": 1.25, "memgauge/seconds_to_limit": 600.0})
        self.assertEqual(len(logs.output), 1)
        self.assertIn("LEAK host heap +1.25 MiB/step, held by __main__.kept", logs.output[0])

    def test_undecided(self):
        self.says('{"verdict": "undecided", "findings": []}', 0)
        self.assertEqual(verdicts.Verdicts().last(), {"memgauge/undecided": 1.0})

    def test_what_fails_says_nothing(self):
        self.says("no session", 1)
        self.assertIsNone(verdicts.Verdicts().last())
        os.unlink(self.binary)
        with self.assertLogs("memgauge", "WARNING"):
            asked = verdicts.Verdicts()
            self.assertIsNone(asked.last())
        self.assertFalse(asked.active)

    def test_unobserved(self):
        with mock.patch.object(feed, "observed", lambda: False), mock.patch.object(verdicts, "_said", False):
            with self.assertLogs("memgauge", "WARNING") as logs:
                for _ in range(3):
                    asked = verdicts.Verdicts()
                    asked.event("epoch", "begin")
                    self.assertEqual((asked.look(), asked.last()), (None, None))
        self.assertEqual(len(logs.output), 1)
        self.assertIn("memgauge attach %d" % os.getpid(), logs.output[0])


if __name__ == "__main__":
    unittest.main()
