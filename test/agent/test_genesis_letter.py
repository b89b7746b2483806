"""What the Genesis document says word for word, on our own devices and with PyTorch's allocator behind "cuda"."""
import logging
import os
import re
import subprocess
import sys
import unittest

import alloclib
from ringfile import AGENT

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "allocator.md")

TORCH = """
import sys, types
sys.path.insert(0, %(here)r)
import alloclib
from ringfile import AGENT
reason = alloclib.fake_gpu(1 << 30)
if reason:
    print("skip:", reason); sys.exit()
import memgauge
from memgauge import allocator
# PyTorch's allocator is played by one of ours on the same driver
inner = allocator.Device("cuda", 0, allocator.library(), allocator.library().memgauge_open(b"cuda", 0, b""))
emptied = []
cuda = types.SimpleNamespace(is_available=lambda: True, is_initialized=lambda: True, device_count=lambda: 1, synchronize=lambda i: None,
    memory_stats=lambda i: {k: v for k, v in inner.memory_stats().items() if "." in k or k.startswith("num_device")},
    memory_summary=lambda i: "summary", empty_cache=lambda: emptied.append(inner.empty_cache()),
    caching_allocator_alloc=lambda size, device=None, stream=None: inner.allocate(size), caching_allocator_delete=inner.free,
    reset_peak_memory_stats=lambda i: inner.lib.memgauge_reset_stats(inner.handle, 1, 0),
    memory=types.SimpleNamespace(_snapshot=lambda: {"device_traces": [[
        {"action": "segment_alloc", "addr": 512, "size": 2 << 20, "stream": 0, "time_us": 10},
        {"action": "alloc", "addr": 512, "size": 100, "stream": 0, "time_us": 11},
        {"action": "free_requested", "addr": 512, "size": 100, "stream": 0, "time_us": 15}]]}))
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda, __version__="2.9")
device = memgauge.device("cuda")
assert type(device).__name__ == "TorchDevice"
try:
    memgauge.device("cuda", "policy:vmm")
except allocator.AllocatorError as e:
    assert "PYTORCH_ALLOC_CONF" in str(e) and "install_allocator" in str(e), e
else:
    assert False, "its settings were left out"
with memgauge.profiler.profile_memory() as prof:
    x = memgauge.ones(100, 200, device=device)
    y = memgauge.matmul(x, x.T)
    del x
assert y.tolist()[99][99] == 200.0
assert prof.peak_memory() >= 120000, prof.peak_memory()
assert prof.memory_stats()["cuda:0"]["num_allocations"] == 2, prof.memory_stats()
del y
assert device.empty_cache() > 0 and device.memory_allocated() == 0
kinds = [(e["kind"], e["address"]) for e in device.memory_events()]
assert kinds == [("segment_alloc", 512), ("alloc", 512), ("free_requested", 512)], kinds
assert device.memory_events(1)[0]["lifetime_ns"] == 4000 and not device.memory_events()[1]["cache_hit"]
try:
    memgauge.zeros(100000, 100000, device="cuda")
except RuntimeError as e:
    assert "CUDA OOM" in str(e), e
print("fine")
"""


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Letter(unittest.TestCase):
    def setUp(self):
        import memgauge
        self.memgauge, self.device = memgauge, memgauge.device("fake")
        self.device.empty_cache()

    def test_one_mebibyte_is_large(self):
        before = self.device.memory_stats()
        large, small = self.device.allocate(1 << 20), self.device.allocate((1 << 20) - 1024)
        after = self.device.memory_stats()
        for pool in ("large_pool", "small_pool"):
            self.assertEqual(after["allocation.%s.current" % pool] - before["allocation.%s.current" % pool], 1, pool)
        self.device.free(large)
        self.device.free(small)

    def test_empty_cache_tells_what_it_gave_back(self):
        self.device.free(self.device.allocate(30 << 20))
        self.assertEqual(self.device.empty_cache(), 30 << 20)
        self.assertEqual(self.device.empty_cache(), 0)

    def test_debug_logs(self):
        with self.assertLogs("memgauge.allocator", logging.DEBUG) as logged:
            self.memgauge.set_memory_debug(True)
            self.device.free(self.device.allocate(5000))
        self.memgauge.set_memory_debug(False)
        self.assertIn("alloc 5000 bytes at 0x", logged.output[0])
        self.assertIn("test_genesis_letter.py", logged.output[0])
        self.assertIn("free at 0x", logged.output[1])

    def test_debug_of_one_device_logs(self):
        with self.assertLogs("memgauge.allocator", logging.DEBUG) as logged:
            self.device.set_memory_debug(True)
            self.addCleanup(self.device.set_memory_debug, False)
            self.device.free(self.device.allocate(5000))
        self.assertEqual(len(logged.output), 2, logged.output)

    def test_double_free_shows_the_caller(self):
        self.memgauge.set_memory_debug(True)
        self.addCleanup(self.memgauge.set_memory_debug, False)
        address = self.device.allocate(5000)
        self.device.free(address)
        with self.assertRaises(RuntimeError) as caught:
            self.device.free(address)
        text = str(caught.exception)
        self.assertEqual(text.count("test_double_free_shows_the_caller"), 3, text)  # allocated, freed, freed again
        self.assertNotIn(".go:", text)
        code = self.device.lib.memgauge_free(self.device.handle, address)  # from C, which gives no stack
        self.assertNotIn(".go:", self.device.lib.memgauge_error().decode())
        self.assertEqual(code, -1)

    def test_no_gpu(self):
        code = "import memgauge; memgauge.device('cuda:63')"    # also where there are some
        done = subprocess.run([sys.executable, "-B", "-c", code], stderr=subprocess.PIPE, universal_newlines=True,
                              env=dict(os.environ, PYTHONPATH=AGENT))
        self.assertRegex(done.stderr, r'AllocatorError: .*open CUDA device 63: .*needs a GPU.*device\("cpu"\)')

    def test_oom_event_has_no_address(self):
        with self.assertRaises(self.memgauge.OutOfMemoryError):
            self.device.allocate(1 << 50)
        event = self.device.memory_events(1)[0]
        self.assertEqual((event["kind"], event["address"], event["size"]), ("oom", None, 1 << 50))
        self.assertGreater(event["device_free"], 0)

    def test_sizes_and_devices_out_of_range(self):
        for size in (1 << 63, (1 << 64) + 512, -1):
            self.assertRaises(ValueError, self.device.allocate, size)
        self.assertRaises(ValueError, self.memgauge.empty, 1 << 40, 1 << 40, device=self.device)
        self.assertRaises(ValueError, self.memgauge.device, -1)
        lib = self.device.lib
        self.assertEqual(lib.memgauge_open(b"fake", -1, b""), 0)
        self.assertIn(b"numbered from 0", lib.memgauge_error())
        self.assertIsNone(lib.memgauge_alloc(self.device.handle, (1 << 64) - 512, None, 0))
        self.assertIn(b"size out of range", lib.memgauge_error())

    def test_warm_up_and_adaptive_sizes(self):
        """They are off until switched on, as the documentation says and by what it says."""
        with open(DOCS, encoding="utf-8") as f:
            conf = re.search(r'memgauge\.device\("cuda",\s+"([^"]*adaptive:True[^"]*)"\)', f.read())
        self.assertIsNotNone(conf, "nothing says how they are switched on")
        sizes = [int(n) << 20 for n in re.search(r"warm_up_mb:\[([0-9:]+)\]", conf.group(1)).group(1).split(":")]
        misses = []
        for place, settings in enumerate((conf.group(1), "policy:packed")):
            device = self.memgauge.device("fake:%d" % (7 + place), settings)
            for address in [device.allocate(size) for size in sizes]:
                device.free(address)
            misses.append(device.memory_stats()["num_cache_misses"])
        self.assertEqual(misses[0], 0)
        self.assertGreater(misses[1], 0)


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class BehindPyTorch(unittest.TestCase):
    def test_api(self):
        done = subprocess.run([sys.executable, "-c", TORCH % {"here": os.path.dirname(os.path.abspath(__file__))}],
                              stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, universal_newlines=True, timeout=120)
        if done.stdout.startswith("skip:"):
            self.skipTest(done.stdout)
        self.assertEqual(done.stdout, "fine\n")


if __name__ == "__main__":
    unittest.main()
