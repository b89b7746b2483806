"""The hook at a step's end, and the records that it holds."""
import unittest
from _thread import allocate_lock
from unittest import mock

from ringfile import AGENT  # noqa: F401  (puts the agent on the path)
from memgauge._agent.observe import counter

MS = 1_000_000


class Records(unittest.TestCase):
    def setUp(self):
        self.rows, self.at, self.lock = [], 0, allocate_lock()
        patched = mock.patch.object(counter, "now", lambda: self.at)
        patched.start()
        self.addCleanup(patched.stop)
        self.counter = counter.Counter(self.fail, self.fail, self.lock)
        self.counter.into(lambda flags, steps, number, cost, duration, host, at: self.rows.append(
            (steps, number, duration, at)))
        self.counter.told(0, 1, 0, 0)
        self.optimizer = object()

    def train(self, steps, length):
        for _ in range(steps):
            self.at += length
            self.counter.hook(self.optimizer)

    def test_what_is_held_is_written_as_it_was(self):
        """Each step has its own row, with its own end, however many wait for each other."""
        self.counter.plan(10_000, id(self.optimizer), 1)
        self.train(100, 3 * MS)
        self.assertGreater(100, len(self.rows))
        self.counter.settle()
        self.assertEqual([(1, n + 1, 3 * MS - (0 if n else 1), (n + 1) * 3 * MS) for n in range(100)], self.rows)
        self.assertEqual((100, 300 * MS), self.counter.recorded())

    def test_little_is_held(self):
        self.counter.plan(10_000, id(self.optimizer), 1)
        for length in (MS // 10, MS, 10 * MS, 100 * MS):
            for _ in range(100):
                self.train(1, length)
                late = self.at - (self.rows[-1][3] if self.rows else 0)
                self.assertLess(late, counter.STRETCH)
                self.assertLess(late // length, counter.HELD)

    def test_rows_of_several_steps(self):
        self.counter.plan(10_000, id(self.optimizer), 4)
        self.train(20, MS)
        self.counter.plan(10_000, id(self.optimizer), 2)     # another length, while some are held
        self.train(20, MS)
        self.counter.settle()
        self.assertEqual(list(range(4, 21, 4)) + list(range(22, 41, 2)), [row[1] for row in self.rows])
        self.assertEqual(40, sum(row[0] for row in self.rows))

    def test_a_lock_that_is_held_delays_a_record(self):
        self.counter.plan(10_000, id(self.optimizer), 1)
        with self.lock:
            self.train(3, 100 * MS)
        self.assertEqual([], self.rows)
        self.train(1, 100 * MS)
        self.assertEqual([(4, 4, 400 * MS - 1, 400 * MS)], self.rows)


if __name__ == "__main__":
    unittest.main()
