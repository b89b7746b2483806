"""Readings of this process's own memory, against what the test allocates."""
import ctypes
import os
import sys
import unittest

from ringfile import S
from memgauge._agent.gauges.memory import BOOST, DENSITY, FAR, HEAP_LIMIT, HEAP_REST, HEAP_SHARE, Gate, Host, report

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

    def test_a_costly_reading_is_paid_for_by_those_after_it(self):
        gate = Gate(0.5)
        gate.took(0, 1_000_000, 0.01)
        self.assertEqual(gate.due, 1_000_000_000)
        gate.took(gate.due, 100_000, 0.01)
        self.assertEqual(gate.due, 1_775_000_000)

    def read(self, gate, cost, seconds, step=5_000_000):
        """Times of the readings when a step takes 5 ms, in ns."""
        at, times = 0, []
        while at < seconds * 1_000_000_000:
            gate.took(at, cost, 0.01)
            times.append(at)
            at = -(-max(at + 1, gate.due) // step) * step
        return times

    def test_a_young_run_is_read_as_densely_as_an_old_one(self):
        times = self.read(Gate(0.85, early=True), 200_000, 600)
        for end in (1, 4, 16, 60):
            seen = [t for t in times if t < end * 1e9]
            late = [t for t in seen if t > end * 0.5e9]
            self.assertGreater(len(late), 10, end)      # half a run has floors enough, at any age

    def test_the_share_is_kept(self):
        """From the first second on it is exceeded by so much at most; over minutes not at all."""
        share = 0.01 * HEAP_SHARE * 0.85
        for cost in (20_000, 200_000, 2_000_000):
            times = self.read(Gate(0.85, early=True), cost, 600)
            for end in (1e9, 5e9, 20e9):
                self.assertLessEqual(sum(t < end for t in times) * cost, BOOST * share * end + cost)
            late = sum(t > 300e9 for t in times)
            self.assertLessEqual(late * cost, share * 300e9 + cost)

    def test_readings_never_run_dry(self):
        """Also where each of them takes 4 ms: what a run shows at its end decides."""
        times = self.read(Gate(0.85, HEAP_LIMIT, early=True), 4_000_000, 60)
        for end in (5, 10, 20, 60):
            self.assertGreater(max(t for t in times if t < end * 1e9), 0.7 * end * 1e9)
        self.assertLessEqual(max(b - a for a, b in zip(times, times[1:])), max(2_400_000_000, 60e9 / DENSITY))

    def test_a_slow_heap_is_read_as_its_share_allows(self):
        gate = Gate(1, HEAP_LIMIT)
        gate.took(0, 2 * HEAP_LIMIT, 0.01)
        self.assertEqual(gate.due, 2 * HEAP_LIMIT / (0.01 * HEAP_SHARE))
        gate = Gate(1, HEAP_LIMIT)
        gate.took(0, FAR * HEAP_LIMIT + 1, 0.5)     # stalls that anybody would notice
        self.assertFalse(gate.open(HEAP_REST - 1))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
