"""Allocations that fail and end the program: an event with what was asked for."""
import unittest

from launch import PRELUDE, Home
from memgauge._agent.gauges import heap, oom

GPU = ("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 3 has a total capacity of 79.15 GiB of which 1.20 GiB is free. Process 7 has "
       "77.9 GiB memory in use.")


class Messages(unittest.TestCase):
    def test_what_was_asked_for(self):
        for message, size, device in (
                (GPU, 5 << 29, 3),
                ("[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
                 "4000000000000 bytes. Error code 12", 4000000000000, -1),
                ("Unable to allocate 7.00 GiB for an array with shape (1000,)", 7 << 30, -1),
                ("", 0, -1), ("could not allocate", 0, -1), ("allocate x GiB now", 0, -1)):
            self.assertEqual((oom.requested(message), oom.device(None, message)), (size, device), message)

    def test_which_errors(self):
        torch_like = type("OutOfMemoryError", (RuntimeError,), {})
        for error, yes in ((MemoryError(), True), (torch_like("x"), True), (type("Mine", (torch_like,), {})(), True),
                           (RuntimeError("DefaultCPUAllocator: can't allocate memory"), True),
                           (RuntimeError("shape"), False), (ValueError(), False)):
            self.assertEqual(oom.is_oom(error), yes, error)


class AtExit(unittest.TestCase):
    def setUp(self):
        self.home = Home()
        self.addCleanup(self.home.close)

    def events(self, code):
        run = self.home.run(PRELUDE + "recording.ring()\nwait_ring()\n" + code)
        return run, [e for ring in self.home.rings().values() for e in ring.events() if e[0] in ("oom", "oom_hole",
            "error")]

    def test_an_error_that_ends_the_program(self):
        run, events = self.events("class OutOfMemoryError(RuntimeError): pass\nraise OutOfMemoryError(%r)" % GPU)
        self.assertEqual(run.returncode, 1)
        self.assertIn("Tried to allocate", run.stderr)
        self.assertEqual([(e[0], e[1], tuple(e[2:4])) for e in events],
                         [("oom", "OutOfMemoryError: " + GPU, (5 << 29, 3))])

    def test_a_real_memory_error_behind_another(self):
        run, events = self.events("try:\n    bytearray(1 << 62)\nexcept MemoryError as e:\n    raise ValueError('no room') from e")
        self.assertEqual(run.returncode, 1)
        self.assertEqual([(e[0], tuple(e[2:4])) for e in events[:1]], [("oom", (0, -1))])
        if heap.malloc_info() is not None:
            self.assertEqual([e[0] for e in events[1:]], ["oom_hole"])
            self.assertGreater(events[1][2], 0)

    def test_other_errors_and_caught_ones(self):
        self.assertEqual(self.events("try:\n    bytearray(1 << 62)\nexcept MemoryError:\n    pass\n1 / 0")[1], [])


if __name__ == "__main__":
    unittest.main()
