"""The census without torch: who holds what, and which line. test_census_guest.py: what it must not do."""
import collections
import ctypes
import functools
import gc
import sys
import threading
import types
import time
import unittest
import weakref
from unittest import mock

import census_case
from census_case import settle, take

from memgauge._agent.census import census

kept_list = []
kept_errors = []
kept_dict = {}
kept_deque = collections.deque()
kept_set = set()
kept_odd = None     # what a test hangs up


class Thing:
    """A plain instance."""

    def __init__(self, value=None):
        self.value = value


LIBRARY = """
def step(more, done, data):
    mine = []
    while not done.is_set():
        if more.wait(0.01):
            more.clear()
            mine.extend([b"x" * 1000 for _ in range(20)])
            for _ in range(20):
                data.add()
"""


class Data:
    def __init__(self):
        self.seen_by_data = []

    def add(self):
        self.seen_by_data.append(b"y" * 1000)    # seen


class Slotted:
    __slots__ = ("inner", "__weakref__")


class Lonely:
    pass


class ClassLevel:
    cache = {}


def settle_until(condition):
    """Waits for another thread, at most 10 s."""
    for _ in range(1000):
        if condition():
            return True
        time.sleep(0.01)
    return False


def line_of(mark):
    return census_case.line_of(__file__, mark)


class Growing(unittest.TestCase):
    def setUp(self):
        self.memory = census.Memory()

    def tearDown(self):
        global kept_odd
        for kept in (kept_list, kept_errors, kept_dict, kept_deque, kept_set, ClassLevel.cache):
            kept.clear()
        kept_odd = None

    def grow(self, add, holder, mark, evidence="container"):
        """Items are added between two censuses: the growth, the holder and the line must be told."""
        for _ in range(30):
            add()
        first = take(self.memory).holder(holder)
        self.assertEqual((first["evidence"], first["length"], first["delta"]), (evidence, 30, None))
        for _ in range(12):
            add()
        row = take(self.memory).holder(holder)
        self.assertEqual((row["length"], row["delta"]), (42, 12), row)
        self.assertEqual(row["site"], line_of(mark))
        return row

    def test_list(self):
        def add():
            kept_list.append(Thing(b"x" * 1000))    # list
        row = self.grow(add, __name__ + ".kept_list", "list")
        self.assertTrue(42 * 1000 < row["bytes"] < 42 * 1300, row)
        self.assertEqual(row["detail"].partition(";")[0], "of %s.Thing" % __name__)

    def test_library_function(self):
        """What a running function of a library holds is told by that function's line, not by one of the program that
        has such a name."""
        mine = []
        mine.append(0)
        space, more, done = {"__name__": "optim"}, threading.Event(), threading.Event()
        path = "/opt/lib/python3.12/site-packages/torch/optim/adam.py"
        exec(compile(LIBRARY, path, "exec"), space)
        thread = threading.Thread(target=space["step"], args=(more, done, Data()))
        thread.start()
        try:
            for _ in range(2):
                more.set()
                self.assertTrue(settle_until(lambda: not more.is_set()))
                census_rows = take(self.memory)
                row = census_rows.holder("step().mine")
        finally:
            done.set()
            thread.join()
        self.assertEqual(row["site"], path + ":2", row)
        row = census_rows.holder(".seen_by_data")     # the program's own, that a library's function holds
        self.assertEqual(row["site"], line_of("seen"), row)

    def test_dict(self):
        def add():
            kept_dict[len(kept_dict), "key"] = Thing()    # dict
        self.grow(add, __name__ + ".kept_dict", "dict")

    def test_deque(self):
        def add():
            kept_deque.appendleft((Thing(),))    # deque
        self.grow(add, __name__ + ".kept_deque", "deque")

    def test_deque_with_a_bound(self):
        thing = Thing()
        thing.recent = collections.deque(maxlen=500)

        def add():
            thing.recent.append((Thing(),))    # bounded deque
        row = self.grow(add, "test_deque_with_a_bound().thing.recent", "bounded deque")
        self.assertEqual(row["detail"], "of tuple; 500 at most")

    def test_set(self):
        def add():
            kept_set.add(Thing())    # set
        self.grow(add, __name__ + ".kept_set", "set")

    def test_attribute_of_a_local(self):
        thing = Thing()
        thing.outputs = []

        def add():
            thing.outputs.append({"a": 1, "b": Thing()})    # attribute
        self.grow(add, "test_attribute_of_a_local().thing.outputs", "attribute")

    def test_local(self):
        bank = []

        def add():
            bank.append(
                Thing())
        del add
        for _ in range(20):
            bank.append(Thing())    # local
        row = take(self.memory).holder("test_local().bank")
        self.assertEqual(row["length"], 20)

    def test_class_attribute(self):
        def add():
            ClassLevel.cache[len(ClassLevel.cache)] = Thing()    # class
        self.grow(add, ".ClassLevel.cache", "class")

    def test_closure(self):
        global kept_odd
        seen = []

        def hook(x):
            seen.append(x)    # closure
        kept_odd = hook
        self.grow(lambda: hook(Thing()), "test_closure().seen", "closure")

    def test_closure_of_what_is_kept(self):
        global kept_odd

        def make():
            activations = []

            def hook(x):
                activations.append(x)    # kept closure
            return hook
        kept_odd = make()
        self.grow(lambda: kept_odd(Thing()), ".kept_odd.<closure>.activations", "kept closure")

    def test_function_attribute_and_default(self):
        global kept_odd

        def function(x, memo=[]):
            memo.append(x)    # default
            function.calls.append(x)
        function.calls = []
        kept_odd = function
        self.grow(lambda: function(Thing()), ".<default>.memo", "default")
        self.assertEqual(take(self.memory).holder(".calls")["length"], 42)

    def test_slots_and_methods(self):
        global kept_odd
        slotted = Slotted()
        slotted.inner = []
        kept_odd = slotted

        def add():
            slotted.inner.append(Thing())    # slot
        self.grow(add, ".inner", "slot")

    def test_derived_from_dict(self):
        global kept_odd

        class Registry(dict):
            pass
        kept_odd = Registry()
        kept_odd.log = []

        def add():
            kept_odd[len(kept_odd)] = Thing()    # registry
            kept_odd.log.append(1.5)
        self.grow(add, __name__ + ".kept_odd", "registry")
        self.assertEqual(take(self.memory).holder("kept_odd.log")["length"], 42)

    def test_figures_that_pyplot_keeps(self):
        class Gcf:
            figs = collections.OrderedDict()
        module, pyplot = types.ModuleType("matplotlib._pylab_helpers"), types.SimpleNamespace()
        module.Gcf = Gcf
        pyplot.figure = lambda: Gcf.figs.__setitem__(len(Gcf.figs), Thing())
        sys.modules[module.__name__] = module
        Gcf.__module__ = module.__name__     # not of the program's own

        def plot():
            pyplot.figure()    # figure
        try:
            self.grow(plot, "matplotlib.pyplot.open_figures", "figure")
        finally:
            del sys.modules[module.__name__]

    def test_lru_cache(self):
        global kept_odd

        @functools.lru_cache(maxsize=None)
        def mask(n):
            return Thing(n)
        kept_odd = mask
        for n in range(40):
            mask(n)
        take(self.memory)
        for n in range(40, 70):
            mask(n)
        rows = [r for r in take(self.memory).of("container") if "mask" in r["holder"] and r["delta"] == 30]
        self.assertTrue(rows)

    def test_a_new_holder_counts_from_nothing_where_its_root_was_seen(self):
        global kept_odd
        kept_odd = Thing()
        take(self.memory)
        kept_odd.late = [Thing() for _ in range(25)]
        self.assertEqual(take(self.memory).holder("kept_odd.late")["delta"], 25)

    def test_a_million_items_are_estimated(self):
        kept_list.extend(Thing(float(i)) for i in range(200_000))
        gc.collect()
        taken = take(self.memory)
        row = taken.holder(".kept_list")
        self.assertEqual(row["length"], 200_000)
        things = taken.of("type", kind=__name__ + ".Thing")[0]
        self.assertTrue(150_000 < things["count"] < 250_000, things)
        self.assertLess(taken.job.visited, 400_000 * 2)
        self.assertLess(len(taken.job.out), 300)

    def test_each_slice_comes_further(self):
        """A large container that no slice comes to the end of, as on a machine fifty times as slow."""
        kept_list.extend(Thing(float(i)) for i in range(20_000))
        with mock.patch.multiple(census, SLICE=30_000, PATIENT=60_000):
            taken = take(self.memory)
        self.assertEqual(taken.holder(__name__ + ".kept_list")["length"], 20_000, taken.job.notes)

    def test_types(self):
        kept_list.extend(Thing() for _ in range(100))
        take(self.memory)
        kept_list.extend(Thing() for _ in range(50))
        self.assertEqual(take(self.memory).of("type", kind=__name__ + ".Thing")[0]["delta"], 50)

    def test_threads(self):
        stop = threading.Event()

        def worker():
            inbox = [Thing() for _ in range(33)]
            stop.wait()
            del inbox
        thread = threading.Thread(target=worker)
        thread.start()
        try:
            self.assertEqual(take(self.memory).holder("worker().inbox")["length"], 33)
        finally:
            stop.set()
            thread.join()


class Errors(unittest.TestCase):
    tearDown = Growing.tearDown

    def test_stored_exceptions_and_their_frames(self):
        memory = census.Memory()

        def fail(n):
            activations = [Thing(b"y" * 100) for _ in range(50)]
            raise ValueError(len(activations))

        def add():
            try:
                fail(1)
            except ValueError as error:
                kept_errors.append(error)    # error
        for _ in range(10):
            add()
        take(memory)
        for _ in range(5):
            add()
        taken = take(memory)
        row = taken.of("traceback")[0]
        self.assertEqual((row["type"], row["count"], row["delta"]), ("ValueError", 15, 10))    # two frames each
        self.assertEqual(row["holder"], __name__ + ".kept_errors[*]")
        self.assertEqual(row["site"], line_of("error"))
        self.assertGreater(row["bytes"], 15 * 50 * 100)
        self.assertEqual(taken.holder("fail().activations")["length"], 15 * 50)

    def test_their_frames_keep_nothing_more(self):
        def fail():
            local = Thing()
            refs.append(weakref.ref(local))
            raise KeyError
        refs = []
        try:
            fail()
        except KeyError as error:
            kept_list.append(error)
        take()
        kept_list[0].__traceback__.tb_next.tb_frame.clear()
        gc.collect()
        self.assertIsNone(refs[0]())

    def test_a_local_dict_that_the_program_has_stays(self):
        def fail():
            a, b = 1, 2
            kept_dict["locals"] = locals()
            raise KeyError(a + b)
        try:
            fail()
        except KeyError as error:
            kept_list.append(error)
        take()
        self.assertEqual(kept_dict["locals"], {"a": 1, "b": 2})


class Knot:
    def __init__(self, owner):
        self.owner = owner    # knot


class Garbage(unittest.TestCase):
    tearDown = Growing.tearDown

    def setUp(self):
        gc.collect()
        gc.disable()

    def doCleanups(self):
        gc.enable()
        gc.collect()
        return super().doCleanups()

    def test_cycles(self):
        def make():
            thing = Thing()
            thing.parts = [Knot(thing) for _ in range(3)]
        for _ in range(40):
            make()
        rows = take().of("cycle")
        self.assertEqual(len(rows), 2, rows)
        row = [r for r in rows if r["type"].endswith(".Knot")][0]
        self.assertIn(row["holder"], ("Knot.owner.parts[*]",))
        self.assertTrue(100 <= row["count"] <= 120, row)
        row = [r for r in rows if r["type"].endswith(".Thing")][0]
        self.assertEqual(row["holder"], "Thing.parts[*].owner")
        self.assertEqual(row["site"], line_of("knot"))

    def test_what_is_held_is_no_garbage(self):
        def make():
            thing = Thing()
            thing.parts = [Knot(thing)]
            return thing
        kept_list.extend(make() for _ in range(30))
        local = [make() for _ in range(30)]
        self.assertEqual(take().of("cycle"), [])
        del local

    def test_garbage_that_an_earlier_census_saw(self):
        memory = census.Memory()

        def make():
            thing = Thing()
            thing.parts = [Knot(thing)]
            return thing
        kept_list.extend(make() for _ in range(5))
        take(memory)
        kept_list.clear()
        gc.freeze()          # they are in no generation
        try:
            self.assertTrue(take(memory).of("cycle", kind=__name__ + ".Thing"))
        finally:
            gc.unfreeze()

    def test_what_only_c_holds(self):
        memory = census.Memory()
        kept_list.append(Lonely())
        take(memory)
        thing = kept_list.pop()
        ref = weakref.ref(thing)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))
        del thing
        try:
            rows = take(memory).of("extension", kind=__name__ + ".Lonely")
            self.assertEqual([r["count"] for r in rows], [1])
        finally:
            ctypes.pythonapi.Py_DecRef(ctypes.py_object(ref()))
        self.assertIsNone(ref())


if __name__ == "__main__":
    unittest.main()
