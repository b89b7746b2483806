"""Readings of this process's own memory, against what the test allocates."""
import ctypes
import os
import sys
import unittest

from ringfile import S
from memgauge.gauges import HEAP_LIMIT, HEAP_REST, Gate, Host, report

MIB = 1 << 20


class HostMemory(unittest.TestCase):
    def setUp(self):
        self.host = Host()
        self.addCleanup(self.host.close)

    def test_private_memory(self):
        resident, private = self.host.memory()
        block = bytearray(os.urandom(MIB)) * 64
        after, private_after = self.host.memory()
        self.assertAlmostEqual((private_after - private) / MIB, 64, delta=4)
        self.assertLessEqual(private_after, after)
        del block

    def test_peak(self):
        block = bytearray(os.urandom(MIB)) * 32
        resident, _ = self.host.memory()
        del block
        self.assertGreaterEqual(self.host.max_resident(), resident - MIB)

    def test_heap_follows_malloc(self):
        if self.host.mallinfo() is None:
            self.skipTest("this libc has no mallinfo2")
        libc = ctypes.CDLL(None)
        libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
        libc.free.argtypes = [ctypes.c_void_p]
        before = self.host.heap(0, 0.01)
        block = libc.malloc(8 * MIB)
        self.host.heap_gate.due = 0
        after = self.host.heap(0, 0.01)
        libc.free(block)
        self.assertAlmostEqual((after[0] - before[0]) / MIB, 8, delta=0.1)
        self.assertGreaterEqual(after[1], after[0])

    def test_report(self):
        before = report()
        blocks = [object() for _ in range(1 << 21)]     # 16 bytes each, in arenas; more than other tests have left free
        after = report()
        self.assertEqual(sorted(after), ["arenas", "held", "in_use", "mapped"])
        if after["arenas"] is not None:
            self.assertGreaterEqual(after["arenas"] - before["arenas"], 1 << 20)
        if after["in_use"] is not None:
            self.assertGreaterEqual(after["held"], after["in_use"])
            self.assertGreaterEqual(after["in_use"], after["mapped"])
        del blocks

    def test_nothing_due(self):
        self.assertIsNotNone(self.host.heap(0, 0.01))
        self.assertIsNone(self.host.heap(0, 0.01))

    def test_a_closed_descriptor_is_not_read_for_ours(self):
        self.host.memory()
        os.close(self.host.fd)
        self.assertEqual(self.host.memory(), (S.NOT_TAKEN, S.NOT_TAKEN))
        self.assertGreater(self.host.memory()[0], MIB)

    def test_a_child_reads_its_own(self):
        self.host.memory()
        ours, theirs = os.pipe()
        pid = os.fork()
        if not pid:
            self.host.close()
            block = bytearray(os.urandom(MIB)) * 48
            with open("/proc/self/statm") as f:
                fields = f.read().split()
            near = abs(self.host.memory()[0] - int(fields[1]) * os.sysconf("SC_PAGE_SIZE")) < 2 * MIB
            os.write(theirs, b"1" if near and block else b"0")
            os._exit(0)
        os.waitpid(pid, 0)
        self.assertEqual(os.read(ours, 1), b"1")
        os.close(ours)
        os.close(theirs)


class Gates(unittest.TestCase):
    def test_cost_sets_the_pace(self):
        gate = Gate(0.5)
        gate.took(0, 100_000, 0.01)
        self.assertFalse(gate.open(99_000_000))
        self.assertTrue(gate.open(100_000_000))     # 100 µs at half of 20 % of 1 %: every 100 ms

    def test_the_first_readings_come_sooner(self):
        gate, at = Gate(0.5, early=2), []
        for due in (0, 25_000_000, 50_000_000):
            self.assertTrue(gate.open(due))
            gate.took(due, 100_000, 0.01)
            at.append(gate.due)
        self.assertEqual(at, [25_000_000, 50_000_000, 150_000_000])

    def test_a_heap_too_slow_to_read_is_left_alone(self):
        gate = Gate(1, HEAP_LIMIT)
        gate.took(0, 2 * HEAP_LIMIT, 0.5)
        self.assertFalse(gate.open(HEAP_REST - 1))
        self.assertTrue(gate.open(HEAP_REST))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
