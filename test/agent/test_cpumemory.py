"""profile_memory() on the CPU: what PyTorch itself allocates there."""
import subprocess
import threading
import time
import unittest

from client import PYTHON
from ringfile import AGENT  # noqa: F401  (puts the agent on the path)
import memgauge
from memgauge import cpumemory

MIB = 1 << 20

try:
    import torch
except ImportError:
    torch = None

IMPORTED_INSIDE = """
import sys
sys.path.insert(0, %r)
import memgauge
with memgauge.profiler.profile_memory() as prof:
    assert "no PyTorch" in prof.memory_summary()
    import torch
    torch.ones(10)
print(prof.memory_summary(), prof.peak_memory())
with memgauge.profiler.profile_memory() as prof:
    torch.ones(1 << 18)
print(prof.peak_memory())
"""


@unittest.skipIf(torch is None, "needs torch")
class OnTheCPU(unittest.TestCase):
    def test_what_a_section_allocates(self):
        kept, began = torch.ones(MIB), time.time()
        with memgauge.profiler.profile_memory() as prof:
            x = torch.ones(4, MIB // 4)
            y = x * 2
            self.assertGreaterEqual(prof.peak_memory(), 8 * MIB)      # asked in the middle
            del x, kept
        self.assertAlmostEqual(prof.peak_memory(), 8 * MIB, delta=1024)
        stats = prof.memory_stats()["torch cpu"]
        self.assertAlmostEqual(stats["allocated_bytes"], 4 * MIB, delta=1024)
        self.assertEqual((stats["num_cache_hits"], stats["num_allocations"] >= 2), (0, True))
        large = [e for e in prof.memory_events()["torch cpu"] if e["size"] == 4 * MIB]
        self.assertEqual([e["kind"] for e in large], ["alloc", "alloc", "free_completed"])
        for event in large:
            self.assertEqual(event["thread_id"], threading.get_native_id())
            self.assertTrue(began - 1 < event["timestamp"] < time.time() + 1, event)
        self.assertEqual((large[0]["duration_ns"], large[0]["cache_hit"]), (None, False))
        self.assertEqual((large[2]["address"], large[2]["lifetime_ns"] > 0), (large[0]["address"], True))
        self.assertRegex(prof.memory_summary(), r"(?s)4.00 MiB still held.*not seen: other threads.*how long")
        del y
        self.assertAlmostEqual(prof.peak_memory(), 8 * MIB, delta=1024)     # afterwards it stays

    def test_a_block_at_an_older_ones_address(self):
        blocks = []
        for _ in range(20):     # seen by a profiler, freed without one; the next block mostly lies at the same address
            with memgauge.profiler.profile_memory():
                block = torch.ones(MIB)
            del block
            blocks = [torch.ones(MIB)]
            with memgauge.profiler.profile_memory() as prof:
                blocks.clear()
            self.assertEqual([e for e in prof.memory_events()["torch cpu"] if e["size"] == 4 * MIB], [])

    def test_sections_nest(self):
        with memgauge.profiler.profile_memory() as outer:
            a = torch.ones(MIB)
            with memgauge.profiler.profile_memory() as inner:
                b = torch.ones(MIB // 2)
                del a
            c = torch.ones(MIB)
        self.assertAlmostEqual(inner.peak_memory(), 2 * MIB, delta=1024)
        self.assertAlmostEqual(outer.peak_memory(), 6 * MIB, delta=1024)
        self.assertIsNone([e for e in inner.memory_events()["torch cpu"] if e["size"] == 4 * MIB][0]["lifetime_ns"])
        self.assertIsNone(cpumemory._recorder)
        del b, c

    def test_the_programs_own_profiler(self):
        with torch.autograd.profiler.profile(profile_memory=True) as own:
            with memgauge.profiler.profile_memory() as prof:
                torch.ones(MIB)
        self.assertRegex(prof.memory_summary(), "not measured to the end: the program's own profiler")
        self.assertEqual(prof.memory_stats(), {})
        self.assertIn("aten::ones", [e.name for e in own.function_events])
        with memgauge.profiler.profile_memory() as prof:      # the next one is none the worse
            torch.ones(MIB)
        self.assertAlmostEqual(prof.peak_memory(), 4 * MIB, delta=1024)

    def test_on_two_threads(self):
        def other():
            with memgauge.profiler.profile_memory() as second:
                torch.ones(MIB)
            found.append(second.memory_summary())

        found = []
        with memgauge.profiler.profile_memory() as first:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        self.assertIn("a section on another thread is being measured", found[0])
        self.assertLess(first.peak_memory(), MIB)
        self.assertIn("other threads", first.memory_summary())

    def test_quiet_and_imported_inside(self):
        done = subprocess.run([PYTHON, "-B", "-c", IMPORTED_INSIDE % AGENT], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("profiler", done.stderr.lower())
        self.assertRegex(done.stdout, r"\APyTorch was imported within the section: .* 0\n10485\d\d\n\Z")


if __name__ == "__main__":
    unittest.main()
