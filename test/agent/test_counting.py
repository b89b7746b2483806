"""Counts between two censuses: the same containers, found again by their paths."""
import gc
import threading
import time
import unittest
from collections import deque

from census_case import take

from memgauge._agent.census import census, counting, sites


class Spiteful(dict):
    """Runs code of the program's wherever it is asked."""

    def _asked(self, *_):
        raise AssertionError("code of the program ran")

    __len__ = __iter__ = __getitem__ = __contains__ = get = values = items = keys = _asked


class Owner:
    shared = []

    def __init__(self):
        self.kept, self.table, self.recent = [], {"inner": []}, deque(maxlen=1000)
        self.odd = Spiteful()


class Slotted:
    __slots__ = ("kept",)


at_module = []


class Counts(unittest.TestCase):
    def setUp(self):
        self.memory = census.Memory()

    def tearDown(self):
        del at_module[:], Owner.shared[:]

    def count(self):
        """{holder: (items, bytes)}, from another thread, as the control thread does it."""
        found = []
        limit = time.thread_time_ns() + 10**10
        thread = threading.Thread(target=lambda: found.extend(counting.look(self.memory, limit)))
        thread.start()
        thread.join()
        self.about = {text[2]: text[4] for text, _, _, _ in found}
        return {text[2]: (length, size) for text, _, length, size in found}

    def test_the_paths_of_a_census_lead_there_again(self):
        owner, slotted = Owner(), Slotted()
        slotted.kept = list(range(10))
        for _ in range(10):
            owner.kept.append(0.5)
            owner.table["inner"].append(0.5)
            owner.recent.append(0.5)
            dict.__setitem__(owner.odd, len(owner.kept), 0.5)
            at_module.append(bytearray(1000))
            Owner.shared.append(1)
        take(self.memory)
        owner.kept.extend([0.5] * 7)
        owner.table["inner"].clear()
        at_module.extend(bytearray(1000) for _ in range(3))
        counts = self.count()
        local = "test_the_paths_of_a_census_lead_there_again()."
        by_end = {path.rpartition(local)[2]: n for path, n in counts.items()}
        self.assertEqual(by_end["owner.kept"][0], 17)
        self.assertEqual(by_end["owner.recent"][0], 10)
        about = {path.rpartition(local)[2]: text for path, text in self.about.items()}
        self.assertEqual((about["owner.kept"], about["owner.recent"]), ("of float", "of float; 1000 at most"))
        self.assertEqual(by_end["owner.odd"][0], 10)
        self.assertEqual(by_end["slotted.kept"][0], 10)
        self.assertNotIn("owner.table['inner']", by_end)      # it was emptied: there is nothing to tell
        self.assertEqual(by_end[__name__ + ".at_module"][0], 13)
        self.assertGreater(by_end[__name__ + ".at_module"][1], 13_000)
        self.assertEqual(by_end[__name__ + ".Owner.shared"][0], 10)

    def test_what_was_empty_is_told_once_it_has_items(self):
        late = []
        take(self.memory)
        self.assertFalse([path for path in self.count() if path.endswith(".late")])
        late.extend(range(20))
        self.assertEqual([n for path, (n, _) in self.count().items() if path.endswith(".late")], [20])

    def test_a_function_that_has_returned_has_no_variables(self):
        def inner():
            gone = list(range(50))
            take(self.memory)
            return len(gone)
        inner()
        self.assertFalse([path for path in self.count() if path.endswith(".gone")])

    def test_many_containers(self):
        tables = {"t%d" % i: [0.5] * (10 + i) for i in range(200)}
        take(self.memory)
        self.assertLessEqual(len(self.memory.followed), counting.LONG + counting.FEW)
        began = time.thread_time_ns()
        self.assertTrue(self.count())
        self.assertEqual(counting.look(self.memory, began), [])      # no time is left
        del tables


def publish(shared_memory, name):
    return shared_memory.SharedMemory(name=name, create=True, size=8)


def fetch(shared_memory, name):
    return shared_memory.SharedMemory(name=name)


def mapped(numpy):
    return numpy.load("x", mmap_mode="c")


def frozen():
    gc.freeze()


def frozen_model(model):
    model.freeze()


class Calls(unittest.TestCase):
    def test_who_makes_what_no_container_holds(self):
        kinds = {f.__name__: [kind for _, _, kind in sites.memory_calls(f.__code__)]
                 for f in (publish, fetch, mapped, frozen, frozen_model)}
        self.assertEqual(kinds, {"publish": ["shared"], "fetch": [], "mapped": ["map"], "frozen": ["freeze"],
                                 "frozen_model": []})


if __name__ == "__main__":
    unittest.main()
