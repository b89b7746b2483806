"""Holders that are hard to see: chains, caches, what is bound to functions of C, maps, tables of libraries, suspended
functions; and, with torch, views, registered parts, sums that carry graphs."""
import atexit
import functools
import gc
import io
import mmap
import unittest
import weakref
import zlib

import census_case
from census_case import take

from memgauge._agent import state
from memgauge._agent.census import census, schedule, unseen

try:
    import numpy
    import torch
except ImportError:
    numpy = torch = None


def line_of(mark):
    return census_case.line_of(__file__, mark)


class Link:
    def __init__(self, prev):
        self.prev, self.data = prev, bytearray(1000)


class SlotLink:
    __slots__ = ("prev", "data")

    def __init__(self, prev):
        self.prev, self.data = prev, bytearray(1000)


def make_class():
    class Hidden:
        log = []
    return Hidden


def prepare(owner):
    """The first finalizer hangs itself into atexit."""
    first = getattr(weakref, "final" + "ize")
    first(owner, len, b"").atexit = False


def endless():
    seen = []
    while True:
        seen.append(bytearray(1000))    # endless
        yield len(seen)


class Twice(unittest.TestCase):
    def twice(self, add, first=40, then=30):
        memory = census.Memory()
        for _ in range(first):
            add()
        take(memory)
        for _ in range(then):
            add()
        return take(memory)

    def row(self, taken, holder, delta=30, length=70):
        row = taken.holder(holder)
        self.assertEqual((row["length"], row["delta"]), (length, delta), row)
        return row


class Held(Twice):
    def test_chains(self):
        """However long, one place; with slots or in tuples, of which none can wait as a weak reference, too."""
        last = {"links": Link(None), "slots": SlotLink(None), "pairs": None}

        def add():
            last.update(links=Link(last["links"]), slots=SlotLink(last["slots"]),
                        pairs=(bytearray(1000), last["pairs"]))
        taken = self.twice(add, 400, 300)
        rows = [r for r in taken.of("container") if "last" in r["holder"] and r["detail"] == "a chain"]
        self.assertEqual(sorted(r["type"].rpartition(".")[2] for r in rows), ["Link", "SlotLink", "tuple"])
        for row in rows:
            self.assertTrue(690 <= row["length"] <= 702 and row["delta"] == 300, row)
            self.assertTrue(1000 * 690 < row["bytes"] < 1400 * 700, row)

    def test_errors_in_chains(self):
        last = [None]

        def add():
            error = ValueError()
            error.__cause__, last[0] = last[0], error
        row = self.twice(add, 400, 300).holder(".__cause__.__cause__")
        self.assertEqual(row["delta"], 300)

    def test_functions_of_c(self):
        kept = []
        add = kept.append
        bound = self.row(self.twice(lambda: add(b"x" * 1000)), "kept")
        self.assertGreater(bound["bytes"], 70_000)
        del kept
        call = functools.partial(lambda store, x: store.append(x), [])
        self.row(self.twice(lambda: call(b"x")), ".call.args[*]")
        sinks = []

        def sink():
            buffer = io.BytesIO()
            buffer.write(b"x" * 1000)
            sinks.append(buffer.write)
        self.assertGreater(self.row(self.twice(sink), "sinks")["bytes"], 70_000)

    def test_a_function_of_c_alone(self):
        add = [].append
        self.row(self.twice(lambda: add(1.5)), "add.__self__")

    def test_caches(self):
        numbers = iter(range(1000))

        @functools.lru_cache(maxsize=None)
        def endless_cache(i):
            return bytearray(1000)

        @functools.lru_cache(maxsize=100)
        def bounded_cache(i):
            return bytearray(1000)

        def add():
            i = next(numbers)
            endless_cache(i), bounded_cache(i)
        taken = self.twice(add)
        self.assertGreater(self.row(taken, "endless_cache")["bytes"], 70_000)
        row = self.row(taken, "bounded_cache")
        self.assertGreater(row["bytes"], 70_000)
        self.assertTrue(row["detail"].endswith("; 100 at most"), row)

    def test_maps(self):
        kept = []
        row = self.row(self.twice(lambda: kept.append(mmap.mmap(-1, 65536))), "kept")
        self.assertGreater(row["bytes"], 70 * 65536)
        kept[0].close()      # its length can't be asked for any more
        take()

    def test_what_libraries_hide(self):
        kept = []
        row = self.row(self.twice(lambda: kept.append(zlib.decompressobj())), "kept")
        self.assertIn("the bytes of 70 objects of libraries can't be seen", row["detail"])

    def test_tables_of_libraries(self):
        owner = Link(None)
        prepare(owner)
        before = getattr(atexit, "_ncallbacks")()

        def add():
            weakref.finalize(owner, len, bytearray(1000)).atexit = False    # finalize
            atexit.register(len, "")    # atexit
        try:
            taken = self.twice(add)
        finally:
            atexit.unregister(len)
        row = taken.holder("weakref.finalize._registry")
        self.assertEqual((row["delta"], row["site"]), (30, line_of("finalize")))
        row = taken.holder("atexit._callbacks")
        self.assertEqual((row["length"], row["delta"], row["site"]), (before + 70, 30, line_of("atexit")))

    def test_a_class_that_only_its_instances_lead_to(self):
        instance = make_class()()
        self.row(self.twice(lambda: instance.log.append(1.5)), ".Hidden.log")

    def test_suspended_functions(self):
        """On the value stack of a loop, where no walk comes to; looked for where nothing else explains the growth."""
        memory, taken = census.Memory(), None
        memory.purse.look(0.01)
        for n in endless():
            if n % 100 == 0:
                memory.anon -= 4 * unseen.MATERIAL      # as if private memory had grown
                taken = take(memory)
            if n == 300:
                break
        row = self.row(taken, "endless().seen", 100, 300)
        self.assertEqual(row["site"], line_of("endless"))
        self.assertEqual(memory.looks, 2)


@unittest.skipIf(torch is None, "needs torch")
class WithTorch(Twice):
    def test_views(self):
        kept = []
        row = self.row(self.twice(lambda: kept.append(numpy.zeros(10_000)[:2])), "kept")
        self.assertTrue(70 * 80_000 < row["bytes"] < 70 * 81_000, row)

    def test_views_of_one_array(self):
        base, kept = numpy.zeros(10_000), []
        row = self.row(self.twice(lambda: kept.append(base[:2])), "kept")
        self.assertLess(row["bytes"], 100_000)

    def test_arrays_of_objects(self):
        kept = []

        def add():
            array = numpy.empty(3, dtype=object)
            array[:] = [bytearray(1000) for _ in range(3)]
            kept.append(array)
        self.assertGreater(self.row(self.twice(add), "kept")["bytes"], 70 * 3000)

    def test_registered_parts(self):
        model, numbers = torch.nn.Linear(2, 2), iter(range(1000))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def add():
            model.register_buffer("mean%d" % next(numbers), torch.zeros(1000))    # buffer
            optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1000))]})    # group
        taken = self.twice(add)
        row = self.row(taken, "model._buffers")
        self.assertGreaterEqual(row["bytes"], 70 * 4000)
        self.assertEqual(row["site"], line_of("buffer"))
        row = self.row(taken, "optimizer.param_groups", 30, 71)
        self.assertGreaterEqual(row["bytes"], 70 * 4000)
        self.assertEqual(row["site"], line_of("group"))

    def test_a_sum_that_carries_graphs(self):
        """Looked at when it is met: after the walk it would be another one."""
        model, memory = torch.nn.Linear(2, 2), census.Memory()

        def train():
            kept["total"] = kept.get("total", 0) + model(torch.ones(2)).sum()
        self.addCleanup(kept.clear)
        for _ in range(2):
            for _ in range(100):
                train()
            job = census.Census(memory, False, 20e9)
            while job.tick() is not None:
                train()
        row = [r for r in census_case.Taken(job).of("graph") if "kept" in r["holder"]][0]
        self.assertGreaterEqual(row["length"], 200)
        self.assertGreaterEqual(row["delta"], 100)


kept = {}


class Course(unittest.TestCase):
    """When a training takes a census unasked."""

    def setUp(self):
        self.current, state.current = state.current, state.Process("/nowhere", (-1, -1))
        self.began = []
        self.request, census.request = census.request, lambda deep, done, unasked: self.began.append(self.now)
        census._memory = census.Memory()
        self.addCleanup(setattr, state, "current", self.current)
        self.addCleanup(setattr, census, "request", self.request)
        self.addCleanup(setattr, census, "_memory", census.Memory())

    def run_for(self, seconds, grows, worker=False):
        course = schedule.Course(state.current, 0, worker)
        self.now = 0.0
        while self.now < seconds:
            course.tick(self.now, int(grows * self.now))
            self.now += 0.05
        return course

    def test_what_grows_is_looked_at_soon(self):
        census._memory.purse.at, census._memory.purse.level = 1 << 62, 1e9     # which it has saved
        census._memory.purse.look = lambda budget: 1e9
        course = self.run_for(20, 2 << 20)
        self.assertLess(self.began[0], 0.8)
        self.assertTrue(8 <= len(self.began) <= 12, self.began)
        self.assertFalse(course.over(self.began[-1] + 0.1, 100 << 20))
        self.assertTrue(course.over(2 * self.began[-1], 100 << 20))
        self.assertFalse(course.over(2 * self.began[-1], 0))     # all of it was given back

    def test_short_steps_that_keep_something_are_looked_at_before_half_a_second(self):
        """A thousand steps a second: the run may be half over by then."""
        census._memory.purse.look = lambda budget: 1e9
        for grows, at in (8 << 20, (0.1, 0.25)), (0, (0.6, 0.75)):
            self.began.clear()
            course = schedule.Course(state.current, 0)
            for i in range(25):
                self.now = i * 0.05
                course.tick(self.now, int(self.now * grows), 50 * i + 1, 0.001)
            self.assertTrue(at[0] <= self.began[0] <= at[1], self.began)
            self.assertFalse([t for t in self.began[1:] if t < schedule.FIRST], self.began)

    def test_steps_count_where_the_clock_says_little(self):
        """A minute for the first step, a hundred a second from then on: by its age the training would be looked at once
        more in its last seconds."""
        census._memory.purse.look = lambda budget: 1e9
        course = schedule.Course(state.current, 0)
        for i in range(140):
            self.now = 60 + i * 0.05 if i else 0.7
            course.tick(self.now, int(self.now * (2 << 20)), 5 * i + 1, 0.01)
        self.assertGreaterEqual(len([at for at in self.began if at > 60.1]), 2, self.began)

    def test_a_worker(self):
        census._memory.purse.look = lambda budget: 20e6
        course = self.run_for(20, 2 << 20, True)
        self.assertTrue(2 <= self.began[0] < 2.3, self.began)
        self.assertFalse(course.over(100, 100 << 20))      # the training may wait for its end
        self.began.clear()
        self.run_for(20, 0, True)
        self.assertEqual(self.began, [])

    def test_an_empty_purse(self):
        census._memory.purse.look = lambda budget: 1e6
        self.run_for(20, 2 << 20)
        self.assertEqual(self.began, [])


if __name__ == "__main__":
    gc.collect()
    unittest.main()
