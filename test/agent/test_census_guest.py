"""The census as a guest: no code of the program runs, nothing is kept alive, budgets, forks, real processes."""
import collections
import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import types
import unittest
import weakref

import client
from census_case import settle, take
from client import CENSUS, COUNTED, ERROR, wait_for
from lane import times
from launch import Home
from test_census import Slotted, Thing

from memgauge._agent import state
from memgauge._agent.census import census, memory

kept_list = []
kept_dict, changing_dict = {}, {}
kept_deque = collections.deque()
kept_set = set()


def clear(_case):
    for kept in (kept_list, kept_dict, changing_dict, kept_deque, kept_set):
        kept.clear()


called = []


def tell(name, result=None):
    def method(*args, **kwargs):
        called.append(name)
        raise RuntimeError("called " + name)
    return method


class LoudMeta(type):
    __instancecheck__ = tell("__instancecheck__")
    __subclasscheck__ = tell("__subclasscheck__")
    __getattribute__ = tell("meta __getattribute__")
    __hash__ = tell("meta __hash__")
    __eq__ = tell("meta __eq__")
    __repr__ = tell("meta __repr__")
    mro_told = []


NAMES = ("__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__bool__", "__len__", "__iter__", "__getitem__",
         "__contains__",
         "__getattr__", "__getattribute__", "__sizeof__", "__reversed__", "__length_hint__", "__call__", "__int__",
         "__index__",
         "__dir__", "__format__", "__reduce__", "__reduce_ex__", "__del_", "__get__")


def loud(name, bases, **more):
    space = {n: tell(n) for n in NAMES if n not in more.pop("quiet", ())}
    space["__class__"] = property(tell("__class__"))
    space["prop"] = property(tell("prop"))
    space["__module__"] = __name__
    space.update(more)
    return type.__new__(LoudMeta, name, bases, space)


class Hostile(unittest.TestCase):
    tearDown = clear

    def test_no_code_of_the_program_runs(self):
        make = object.__new__
        plain = make(loud("LoudPlain", (object,)))
        object.__setattr__(plain, "value", [1.5] * 40)
        as_list = list.__new__(loud("LoudList", (list,)))
        list.extend(as_list, [1.5] * 50)
        as_dict = dict.__new__(loud("LoudDict", (dict,)))
        dict.update(as_dict, {i: [i] for i in range(60)})
        as_tuple = tuple.__new__(loud("LoudTuple", (tuple,)), [1.5] * 70)
        as_deque = collections.deque.__new__(loud("LoudDeque", (collections.deque,)))
        for _ in range(20):
            collections.deque.append(as_deque, 1)
        error = Exception.__new__(loud("LoudError", (Exception,)))
        no_dict = make(loud("NoDict", (object,), __dict__=property(tell("__dict__"))))
        module = types.ModuleType.__new__(loud("LoudModule", (types.ModuleType,)))
        types.ModuleType.__init__(module, "loud_module")
        kept_list[:] = [plain, as_list, as_dict, as_tuple, as_deque, error, no_dict, module]
        kept_list.append({"key": plain, ("a", 1): as_list})
        sys.modules["loud_module"] = module
        called.clear()
        memory = census.Memory()
        try:
            take(memory, deep=True)
            object.__setattr__(plain, "more", [2.5] * 30)
            taken = take(memory, deep=True)
        finally:
            del sys.modules["loud_module"]
        self.assertEqual(called, [])
        holders = {r["holder"] for r in taken.of("container")}
        for end in (".value", ".more"):
            self.assertTrue(any(h.endswith(end) for h in holders), (end, holders))
        lengths = {r["type"]: r["length"] for r in taken.of("container")}
        self.assertEqual(lengths.get(__name__ + ".LoudDict"), 60, lengths)
        kept_list.clear()

    def test_tuples_in_the_making(self):
        """tuple() of an iterator shortens what it has made, which must be its own: held by a census it raises
        SystemError."""
        done, made, errors = threading.Event(), [], []

        def slow():
            for i in range(13):
                time.sleep(0.0002)
                yield i

        def make():
            while not done.is_set():
                try:
                    made.append(len(tuple(slow())))
                except SystemError as e:
                    errors.append(e)

        thread = threading.Thread(target=make)
        thread.start()
        try:
            for deep in (True, False) * times(10, 25):
                take(deep=deep)
        finally:
            done.set()
            thread.join()
        self.assertEqual((errors[:1], set(made)), ([], {13}))

    def test_objects_that_contain_themselves(self):
        loop = []
        loop.append(loop)
        kept_list.append(loop)
        deep = []
        inner = deep
        for _ in range(5000):
            inner.append([1.5] * 10 + [[]])
            inner = inner[-1][-1]
        kept_list.append(deep)
        chain = Thing()
        kept_list.append(chain)
        for _ in range(5000):
            chain.next = Thing()
            chain = chain.next
        taken = take()
        self.assertGreaterEqual(taken.of("type", kind=Thing.__module__ + ".Thing")[0]["count"], 5000)

    def test_a_program_that_changes_everything_meanwhile(self):
        stop = threading.Event()

        def churn():
            i = 0
            while not stop.is_set():
                i += 1
                changing_dict[i] = [Thing(i)]
                kept_list.append(i)
                if len(changing_dict) > 500:
                    changing_dict.clear()
                    del kept_list[:]
        threads = [threading.Thread(target=churn) for _ in range(2)]
        for t in threads:
            t.start()
        try:
            memory = census.Memory()
            for _ in range(5):
                take(memory)
        finally:
            stop.set()
            for t in threads:
                t.join()

    def test_odd_entries_of_sys_modules(self):
        sys.modules["odd entry"] = None
        sys.modules["odder entry"] = object()
        try:
            take()
        finally:
            del sys.modules["odd entry"], sys.modules["odder entry"]


class KeepsNothing(unittest.TestCase):
    tearDown = clear

    def test_between_slices(self):
        """At every pause of a census, everything is dropped that the program holds: all of it must go."""
        failures, rounds = [], []

        def drop():
            if len(rounds) > 60:
                return
            rounds.append(1)
            refs = []
            for kept in (kept_list, list(changing_dict.values()), kept_deque, kept_set):
                for o in kept:
                    while isinstance(o, (list, tuple)):
                        o = o[0]
                    refs.append(weakref.ref(o))
            o = None
            kept_list.clear(), changing_dict.clear(), kept_deque.clear(), kept_set.clear()
            if any(r() is not None for r in refs):
                failures.append(sum(r() is not None for r in refs))
            fill()

        def fill():
            kept_list.extend([(Thing(i),) for i in range(300)])
            changing_dict.update((i, [Thing(i)]) for i in range(300))
            kept_deque.extend(Thing(i) for i in range(300))
            kept_set.update(Thing(i) for i in range(300))

        fill()
        gc.disable()     # so that nothing but reference counts frees them
        try:
            take(between=drop)
        finally:
            gc.enable()
        self.assertGreater(len(rounds), 5)
        self.assertEqual(failures, [])

    def test_locals(self):
        """Read by a census, changed by the program: what was there before must go at once."""
        refs = []

        def body():
            big = Thing()
            refs.append(weakref.ref(big))
            take()
            settle()
            big = None
            self.assertIsNone(refs[0]())
            return big
        body()

    def test_afterwards(self):
        thing, error = Thing(), None
        thing.items = [Slotted() for _ in range(20)]
        refs = [weakref.ref(thing)] + [weakref.ref(i) for i in thing.items]
        memory = census.Memory()
        kept_list.append(thing)
        take(memory)
        take(memory)
        settle()
        kept_list.clear()
        del thing, error
        self.assertEqual([r() for r in refs if r() is not None], [])


class Budget(unittest.TestCase):
    def test_purse(self):
        purse = memory.Purse()
        full, begin = 0.01 * census.SHARE * census.WINDOW, 0.01 * census.SHARE * memory.SAVED
        self.assertEqual(purse.look(0.01), begin)     # saved up first, spent after
        purse.at -= 10**12
        self.assertEqual(purse.look(0.01), full)
        purse.level -= full
        self.assertAlmostEqual(purse.wait(full, 0.01), 60, delta=1)
        purse.at -= 30_000_000_000
        self.assertAlmostEqual(purse.look(0.01) / full, 0.5, delta=0.02)

    def test_what_a_process_has_saved_when_it_is_first_asked(self):
        before = state.current
        state.current = process = state.Process("/nowhere", (-1, -1))
        try:
            process.deadline -= 10
            self.assertAlmostEqual(memory.Purse().look(0.01) / (0.01 * census.SHARE), 10e9 + memory.SAVED, delta=1e8)
        finally:
            state.current = before

    def test_a_process_that_ends_tells_what_was_seen(self):
        kept_list.extend(Thing() for _ in range(3000))
        try:
            job = census.Census(census.Memory(), False, 20e9)
            while not (job.walk and job.walk.visited > 100):
                job.tick()
            job.finish(2_000_000_000)
        finally:
            kept_list.clear()
        self.assertEqual(job.outcome, "done")
        self.assertIn("the process ended", job.notes[0])
        self.assertTrue([text for _, text, _ in job.out if text[0] == "container" and "kept_list" in text[2]])

    def test_a_process_that_ends_counts_its_own_time(self):
        """Others have the cores for twice as long as the look may take, as it begins."""
        real, asked = census.monotonic_ns, []

        def crowded():
            asked.append(1)
            return real() + (4_000_000_000 if len(asked) > 1 else 0)

        kept_list.extend(Thing() for _ in range(3000))
        job = census.Census(census.Memory(), False, 20e9)
        census.monotonic_ns = crowded
        try:
            job.finish(2_000_000_000)
        finally:
            census.monotonic_ns = real
            kept_list.clear()
        self.assertTrue([text for _, text, _ in job.out if text[0] == "container" and "kept_list" in text[2]])

    def test_a_process_that_ends_waits_no_longer_than_said(self):
        job = census.Census(census.Memory(), False, 20e9)
        while not (job.walk and job.walk.visited > 10):
            job.tick()
        job.finish(1)
        self.assertEqual(job.outcome, "done")

    def test_a_census_that_has_used_up_its_allowance_tells_what_it_has(self):
        kept_list.extend(Thing() for _ in range(100))
        try:
            job = census.Census(census.Memory(), False, 100_000)
            while job.tick() is not None:
                pass
        finally:
            kept_list.clear()
        self.assertIn("ended early", job.notes[0])
        self.assertEqual(job.outcome, "done")

    def test_slices(self):
        taken = take()
        self.assertGreater(taken.job.spent, 0)
        self.assertGreaterEqual(taken.job.longest, 1)


PROGRAM = """
import os, sys, time
kept = []
def main():
    own = []
    while not os.path.exists("stop"):
        kept.append([1.5]); own.append({"a": object()})    # grows
        if len(sys.argv) > 1 and len(kept) % 20 == 0:
            pid = os.fork()
            if pid == 0:
                os._exit(0)
            os.waitpid(pid, 0)
        time.sleep(.002)
main()
"""


class Observed:
    """A program under the agent, with a ring."""

    def __init__(self, program, *argv):
        self.home = Home()
        script = self.home.write("script.py", program)
        self.child = subprocess.Popen([sys.executable, script, *argv], env=self.home.env(), cwd=self.home.directory,
                                      stdin=subprocess.DEVNULL)

    def connect(self):
        def dial():
            sockets = [s for s in self.home.sockets() if s.startswith("%d." % self.child.pid)]
            try:
                return sockets and client.Client(os.path.join(self.home.runtime, "ctl", sockets[0]))
            except OSError:
                return None
        return contextlib.closing(wait_for(dial, 60))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        open(os.path.join(self.home.directory, "stop"), "w").close()
        try:
            self.code = self.child.wait(60)     # also: a program that ends after a census does end
        finally:
            self.child.kill()
            self.child.wait()
            self.home.close()


class Asked(unittest.TestCase):
    """Over the control socket of a real process."""

    def ask(self, c):
        c.send(CENSUS, b"deep\t0\n")
        kind, payload = c.receive()
        if kind == ERROR:
            return kind, payload.decode()
        return kind, dict(line.split("\t", 1) for line in payload.decode().splitlines())

    def test_twice_then_refused(self):
        with Observed(PROGRAM) as p, p.connect() as c:
            kind, first = self.ask(c)
            self.assertEqual(kind, COUNTED, first)
            self.assertEqual((first["census"], first["complete"], first["step"]), ("1", "1", "0"))
            answers = []
            while kind == COUNTED and len(answers) < 200:
                kind, answer = self.ask(c)
                answers.append(answer)
            self.assertEqual(kind, ERROR)
            self.assertIn("budget of 1% allows the next one in", answer)
            spent = sum(int(a["cpu_ns"]) for a in answers[:-1] + [first])
            self.assertLess(spent, 1.5 * 0.01 * census.SHARE * census.WINDOW)

    def test_forks_meanwhile(self):
        with Observed(PROGRAM, "fork") as p, p.connect() as c:
            kind, answer = self.ask(c)
            self.assertEqual(kind, COUNTED, answer)
            self.assertEqual(answer["complete"], "1")

    def test_two_ask_at_once(self):
        with Observed(PROGRAM) as p, p.connect() as c, p.connect() as d:
            c.send(CENSUS, b"deep\t0\n")
            d.send(CENSUS, b"deep\t0\n")
            self.assertEqual([x.receive()[0] for x in (c, d)], [COUNTED, COUNTED])


if __name__ == "__main__":
    unittest.main()
