"""The Genesis document's promises: its examples, read out of a copy of it, and every method that it lists."""
import array
import contextlib
import gc
import io
import os
import re
import subprocess
import sys
import types
import unittest
import warnings

import alloclib
import seeds

DOCUMENT = "genesis-memory-management-api.zh-CN.md"
GIB = 1 << 30

# What the examples take for granted, and what belongs to Genesis's other parts.
SETTING = """
class Loss:
    def backward(self): pass
class Batch:
    def to(self, device): return self
class YourModel:
    def to(self, device): return self
    def parameters(self): return []
    def __call__(self, batch): return batch
def criterion(outputs, targets): return Loss()
num_epochs, batch_idx, dataloader, targets = 1, 0, [Batch(), Batch()], Batch()
"""


def blocks():
    return seeds.blocks(DOCUMENT, "python")


class Adam:
    def __init__(self, parameters): pass
    def zero_grad(self): pass
    def step(self): pass


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Document(unittest.TestCase):
    """Each example as it is written, but for `import genesis`, on a driver of the tests' own; what is not of memory (a
    model, an optimizer) is made up."""

    @classmethod
    def setUpClass(cls):
        import memgauge
        reason = alloclib.fake_gpu(8 * GIB)  # 100,000 × 100,000 floats don't fit
        if reason:
            raise unittest.SkipTest(reason)
        cls.memgauge = memgauge
        memgauge.optim = types.SimpleNamespace(Adam=Adam)

    @classmethod
    def tearDownClass(cls):
        del cls.memgauge.optim
        cls.memgauge.set_memory_debug(False)

    def setUp(self):
        gc.collect()  # the tensors of earlier examples: a namespace with functions in it is a cycle

    def run_block(self, text, needs=""):
        space = {"__name__": "example"}
        exec("import memgauge as genesis\n" + needs, space)
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(compile(text.replace("import genesis\n", "import memgauge as genesis\n"), "example", "exec"), space)
        return out.getvalue(), space

    def block(self, mark):
        found = [b for b in blocks() if mark in b]
        self.assertTrue(found, "the document has no example with %r" % mark)
        return found[0]

    def test_every_example_runs(self):
        self.assertEqual(len(blocks()), 11)
        for text in blocks():
            if "profile_memory() as prof" in text:  # takes seconds, and has a test of its own
                continue
            needs = SETTING
            if "efficiency" in text:  # it divides by what is allocated
                needs += "x = genesis.rand(100, 100, device='cuda')\n"
            with self.subTest(example=text.strip().splitlines()[-1]):
                self.run_block(text, needs)

    def test_allocated(self):
        printed, _ = self.run_block(self.block("allocated = device.memory_allocated()"))
        self.assertRegex(printed, r"^已分配: \d+\.\d MB\n$")

    def test_statistics(self):
        printed, space = self.run_block(self.block("峰值内存"))
        self.assertRegex(printed, r"缓存命中率: \d+\.\d%\n峰值内存: \d+\.\d\d GB\n分配次数: \d+\n")
        with open(os.path.join(seeds.SEEDS, DOCUMENT), encoding="utf-8") as f:
            listed = re.findall(r"^- `(\w+)`", f.read(), re.M)
        self.assertEqual(len(listed), 11)
        for key in listed:
            self.assertIn(key, space["stats"])

    def test_profile(self):
        printed, space = self.run_block(self.block("profile_memory() as prof"))
        self.assertIn("memory of cuda device 0", printed)
        # x and y; their product is right: see Tensors
        self.assertEqual(space["prof"].peak_memory(), 2 * 4096 * 4096 * 4)

    def test_out_of_memory(self):
        printed, _ = self.run_block(self.block("huge_tensor"))
        self.assertIn("内存不足", printed)

    def test_hit_rate_of_a_loop(self):
        printed, space = self.run_block(self.block("for i in range(100)"))
        self.assertEqual(len(printed.splitlines()), 10)
        self.assertGreater(space["device"].memory_stats()["cache_hit_rate"], 0.95)  # the document's advice: > 95 %

    def test_efficiency(self):
        _, space = self.run_block(self.block("efficiency ="), "x = genesis.rand(1000, 1000, device='cuda')\n")
        self.assertTrue(0 < space["efficiency"] <= 1)
        self.assertTrue(0 <= space["fragmentation"] < 0.01)

    def test_debugging(self):
        printed, _ = self.run_block(self.block("set_memory_debug(True)"))
        now = [float(n) for n in re.findall(r": ([0-9.]+)MB", printed)]
        self.assertAlmostEqual(now[1] - now[0], 67.1, places=1)
        self.assertEqual(now[0], now[2])


    def test_tensors_on_the_gpu(self):
        m = self.memgauge
        x = m.from_buffer(memoryview(array.array("f", [1, 2, 3, 4, 5, 6])).cast("B").cast("f", (2, 3)), device="cuda")
        self.assertEqual((x @ x.T).tolist(), [[14, 32], [32, 77]])
        self.assertEqual((x.T + x.T).cpu().tolist(), [[2, 8], [4, 10], [6, 12]])
        self.assertEqual(x.cpu().to("cuda").tolist(), [[1, 2, 3], [4, 5, 6]])
        self.assertEqual(x.__cuda_array_interface__["data"][0], x.data_ptr())
        self.assertFalse(hasattr(x, "__array_interface__"))


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Devices(unittest.TestCase):
    def setUp(self):
        import memgauge
        self.memgauge = memgauge
        self.device = memgauge.device("fake")
        self.device.empty_cache()
        self.device.reset_memory_stats()

    def test_methods(self):
        d, before = self.device, self.device.memory_allocated()
        x = self.memgauge.empty(1 << 20, device=d)  # 4 MiB
        self.assertEqual(d.memory_allocated() - before, 4 << 20)
        self.assertEqual(d.memory_reserved(), d.memory_allocated() + d.memory_cached())
        peak = d.max_memory_allocated()
        del x
        self.assertEqual((d.memory_allocated(), d.max_memory_allocated()), (before, peak))
        self.assertGreaterEqual(d.max_memory_cached(), 4 << 20)
        d.empty_cache()
        self.assertEqual(d.memory_cached(), 0)
        d.reset_memory_stats()
        self.assertEqual((d.max_memory_allocated(), d.memory_stats()["num_allocations"]), (before, 0))

    def test_keys_of_both(self):
        stats = self.device.memory_stats()
        self.assertIn("allocated_bytes", stats)
        self.assertIn("reserved_bytes.large_pool.peak", stats)
        self.assertEqual(stats["allocated_bytes"], stats["allocated_bytes.all.current"])

    def test_one_device_by_many_names(self):
        self.assertIs(self.memgauge.device("fake"), self.memgauge.device("fake:0"))
        self.assertIs(self.memgauge.device(self.device), self.device)
        self.assertEqual(repr(self.device), "memgauge.device('fake:0')")
        for bad in ("gpu", "cuda:x", "fake:-1", ""):
            self.assertRaises(ValueError, self.memgauge.device, bad)

    def test_settings_of_an_open_device(self):
        from memgauge import allocator
        device = self.memgauge.device("fake:7", "policy:packed")
        self.assertIs(self.memgauge.device("fake:7", "policy:packed"), device)
        self.assertIs(self.memgauge.device(device), device)
        for again in "fake:7", device:
            with self.assertRaisesRegex(allocator.AllocatorError, "fake:7 is open already: .* to 'policy:vmm'"):
                self.memgauge.device(again, "policy:vmm")
        with self.assertRaisesRegex(allocator.AllocatorError, "open already"):
            self.memgauge.device(self.device, "policy:vmm")     # it was opened without any

    def test_events(self):
        x = self.memgauge.empty(300, device=self.device)
        address = x.data_ptr()
        del x
        events = self.device.memory_events(10)
        given = [e for e in events if e["address"] == address]
        self.assertEqual([e["kind"] for e in given][-3:], ["alloc", "free_requested", "free_completed"])
        alloc, free = given[-3], given[-2]
        self.assertEqual((alloc["size"], free["size"]), (1200, 1200))
        self.assertIsInstance(alloc["cache_hit"], bool)
        self.assertGreaterEqual(free["lifetime_ns"], 0)
        self.assertTrue(alloc["thread_id"] and alloc["timestamp"] > 1.6e9 and alloc["duration_ns"] >= 0)

    def test_errors_have_kinds(self):
        from memgauge import allocator
        address = self.device.allocate(1000)
        self.device.free(address)
        with self.assertRaisesRegex(allocator.AllocatorError, "double free"):
            self.device.free(address)
        with self.assertRaisesRegex(RuntimeError, "CUDA OOM.*CUDA out of memory"):
            self.memgauge.empty(1 << 50, device=self.device)
        self.assertRaises(self.memgauge.OutOfMemoryError, self.device.allocate, 1 << 50)
        before = self.device.memory_stats()
        self.memgauge.empty(10, device=self.device)  # it goes on after that
        self.assertEqual(before["allocated_bytes"], self.device.memory_allocated())

    def test_debug_tells_places(self):
        self.memgauge.set_memory_debug(True)
        self.addCleanup(self.memgauge.set_memory_debug, False)
        address = self.device.allocate(5000)
        self.device.free(address)
        with self.assertRaisesRegex(RuntimeError, r"test_genesis\.py"):
            self.device.free(address)

    def test_profiles_nest(self):
        with self.memgauge.profiler.profile_memory(self.device) as outer:
            a = self.memgauge.empty(1 << 20, device=self.device)
            with self.memgauge.profiler.profile_memory(self.device) as inner:
                b = self.memgauge.empty(1 << 18, device=self.device)
            del a, b
            self.assertGreater(outer.peak_memory(), 5 << 20 - 1)
        c = self.memgauge.empty(1 << 22, device=self.device)
        self.assertEqual(inner.memory_stats()["fake:0"]["num_allocations"], 1)
        self.assertEqual(outer.memory_stats()["fake:0"]["num_allocations"], 2)
        self.assertIn("memory of fake device 0", outer.memory_summary())
        del c

    def test_snapshot(self):
        import pickle
        import tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "s.pickle")
            x = self.memgauge.empty(1000, device=self.device)
            self.device.memory_snapshot(path)
            with open(path, "rb") as f:
                s = pickle.load(f)
            del x
            self.device.memory_snapshot(path + ".csv", "csv")
            self.assertRaises(RuntimeError, self.device.memory_snapshot, path, "tiff")
            self.assertRaises(RuntimeError, self.device.memory_snapshot, os.path.join(folder, "none", "x"))
        self.assertTrue(any(b["requested_size"] == 4000 and b["state"] == "active_allocated" for g in s["segments"]
                            for b in g["blocks"]))
        self.assertEqual({"action", "addr", "size", "stream", "time_us", "frames"} - set(s["device_traces"][0][-1]),
                         set())

    def test_fork(self):
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and newer, of threads: Go's
        address = self.device.allocate(100)
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                self.device.free(address)
                self.device.allocate(10)
            except RuntimeError as e:
                code = 7 if "forked child" in str(e) else 1
            finally:
                os._exit(code)
        self.assertEqual(os.waitpid(pid, 0)[1] >> 8, 7)
        self.device.free(address)


@unittest.skipUnless(alloclib.PATH, alloclib.REASON)
class Tensors(unittest.TestCase):
    def setUp(self):
        import memgauge
        self.m, self.device = memgauge, memgauge.device("cpu")

    def from_rows(self, rows):
        flat = array.array("f", [x for row in rows for x in row])
        return self.m.from_buffer(memoryview(flat).cast("B").cast("f", (len(rows), len(rows[0]))))

    def test_matmul_of_views(self):
        a, b = [[1, 2, 3], [4, 5, 6]], [[7, 8], [9, 10], [11, 12]]
        x, y = self.from_rows(a), self.from_rows(b)
        self.assertEqual((x @ y).tolist(), [[58, 64], [139, 154]])
        self.assertEqual(self.m.matmul(y.T, x.T).tolist(), [[58, 139], [64, 154]])
        self.assertEqual((x.T + y).tolist(), [[8, 12], [11, 15], [14, 18]])
        self.assertEqual((x * 2 - x / 2).tolist(), [[1.5, 3, 4.5], [6, 7.5, 9]])

    def test_matmul_of_odd_sizes(self):
        self.m.manual_seed(3)
        for m, k, n in ((1, 1, 1), (7, 300, 17), (97, 5, 33), (2, 513, 2)):
            x, y = self.m.rand(m, k, device="cpu"), self.m.rand(k, n, device="cpu")
            z, a, b = self.m.matmul(x, y).tolist(), x.tolist(), y.tolist()
            for i in range(m):
                for j in range(n):
                    self.assertAlmostEqual(z[i][j], sum(a[i][p] * b[p][j] for p in range(k)), delta=1e-3 * k)

    def test_makers(self):
        self.assertEqual(self.m.zeros(2, 2, device="cpu").tolist(), [[0, 0], [0, 0]])
        self.assertEqual(self.m.ones((3,), device="cpu").tolist(), [1, 1, 1])
        self.assertEqual(self.m.empty(0, 5, device="cpu").tolist(), [])
        self.assertTrue(all(0 <= v < 1 for v in self.m.rand(1000, device="cpu").tolist()))
        for wrong in ((-1,), (2.5,), ("3",)):
            self.assertRaises(ValueError, self.m.empty, *wrong, device="cpu")
        self.assertRaises(ValueError, self.m.matmul, self.m.ones(2, 3, device="cpu"), self.m.ones(2, 3, device="cpu"))

    def test_memory_goes_with_the_last_view(self):
        before = self.device.memory_allocated()
        x = self.m.zeros(100, 100, device="cpu")
        t = x.T
        del x
        self.assertGreater(self.device.memory_allocated(), before)
        del t
        self.assertEqual(self.device.memory_allocated(), before)


class WithoutLibrary(unittest.TestCase):
    def run_python(self, code, **env):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("MEMGAUGE_")}
        return subprocess.run([sys.executable, "-c", code], env=dict(clean, **env), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=60)

    def test_says_where_it_looked(self):
        done = self.run_python("import memgauge; memgauge.device('cpu')", PATH="/nowhere",
                               MEMGAUGE_ALLOC_LIBRARY="/nowhere/lib.so")
        self.assertIn("libmemgauge_alloc.so not found (looked for /nowhere/lib.so)", done.stdout)

    def test_import_loads_nothing(self):
        done = self.run_python("import sys; before = set(sys.modules); import memgauge; print(sorted(set(sys.modules) - before)); "
                               "print('device' in dir(memgauge), hasattr(memgauge, 'nonsense'))")
        self.assertEqual(done.stdout, "['memgauge']\nTrue False\n")

    def test_torch_on_cuda_is_pytorchs_own(self):
        code = """
import sys, types
cuda = types.SimpleNamespace(is_available=lambda: True, memory_stats=lambda i: {
    "allocated_bytes.all.current": 60, "allocated_bytes.all.peak": 80, "reserved_bytes.all.current": 100,
    "reserved_bytes.all.peak": 120, "requested_bytes.all.current": 50, "allocation.all.allocated": 10, "num_device_alloc": 2},
    memory_summary=lambda i: "summary %d" % i, empty_cache=lambda: print("emptied"))
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
import memgauge
d = memgauge.device("cuda:1")
s = d.memory_stats()
print(d.memory_allocated(), d.memory_cached(), d.memory_reserved(), d.max_memory_allocated(), d.max_memory_cached(),
      s["active_bytes"], s["cache_hit_rate"], s["num_cache_misses"], d.memory_summary(), d)
d.empty_cache()
"""
        done = self.run_python(code)
        self.assertEqual(done.stdout, "60 40 100 80 40 50 0.8 2 summary 1 cuda:1\nemptied\n")


if __name__ == "__main__":
    unittest.main()
