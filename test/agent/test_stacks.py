"""Backtraces: every thread, the executing line, locals without a word of the program's code, nothing kept alive."""
import time
import unittest

import client
from client import Process, wait_for

BACKTRACE, STACKS = 6, 72

PROGRAM = """
import os, sys, threading, time, weakref

class Loud:
    def __repr__(self):
        print("repr was called")
        return "loud"

class Plain:
    pass

def innermost(x):
    loud, plain, text = Loud(), Plain(), "tab\\there\\nand lines"
    many = list(range(1000))
    nested = {"a": [1, (2, [3])], "b": b"\\xff"}
    while not os.path.exists("stop"):
        time.sleep(0.01)    # the executing line

def deep(n):
    if n:
        return deep(n - 1)
    while not os.path.exists("stop"):
        time.sleep(0.01)

def short_lived():
    big = Plain()
    kept.append(weakref.ref(big))
    go.wait()

def blocked():
    got = threading.Event()
    got.wait(1000)

kept, go = [], threading.Event()
threading.Thread(target=blocked, name="waiter", daemon=True).start()
threading.Thread(target=deep, args=(400,), name="deep").start()
short = threading.Thread(target=short_lived, name="short")
short.start()
print("ready")
innermost(41)
"""


def parse(data):
    threads = []
    for line in data.decode("utf-8").splitlines():
        kind, *fields = line.split("\t")
        if kind == "thread":
            threads.append({"tid": int(fields[0]), "name": fields[2], "daemon": fields[3], "frames": [], "cut": 0})
        elif kind == "frame":
            threads[-1]["frames"].append({"func": fields[0], "file": fields[1], "line": int(fields[2]), "locals": {}})
        elif kind == "local":
            threads[-1]["frames"][-1]["locals"][fields[0]] = fields[1]
        elif kind != "agent":
            threads[-1][kind] = int(fields[0])
    return {t["name"]: t for t in threads}


class Stacks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.process = Process(PROGRAM)
        cls.addClassCleanup(cls.process.close)

    def take(self, flags=b"\0"):
        c = self.process.client()
        c.send(BACKTRACE, flags)
        kind, payload = c.receive()
        self.assertEqual(kind, STACKS, payload)
        c.close()
        return parse(payload)

    def test_every_thread_with_the_executing_line(self):
        threads = self.take()
        self.assertEqual(set(threads), {"MainThread", "waiter", "deep", "short"})
        main = threads["MainThread"]
        self.assertEqual(main["tid"], self.process.child.pid)
        inner, outer = main["frames"][0], main["frames"][-1]
        line = PROGRAM.splitlines().index("        time.sleep(0.01)    # the executing line") + 1
        self.assertIn(inner["line"], (line, line - 1))
        self.assertEqual((inner["func"], outer["func"]), ("innermost", "<module>"))
        self.assertTrue(inner["file"].endswith("train.py"))
        self.assertEqual(threads["waiter"]["daemon"], "1")
        self.assertEqual([f["func"].rpartition(".")[2] for f in threads["waiter"]["frames"]][:3],
                         ["wait", "wait", "blocked"])
        self.assertEqual(inner["locals"], {})

    def test_a_deep_stack_keeps_both_ends(self):
        deep = self.take()["deep"]
        self.assertEqual(len(deep["frames"]), 250)
        # run, _bootstrap_inner, _bootstrap; and now and then os.path.exists
        self.assertIn(deep["cut"] - (400 + 1 + 3 - 250), (0, 1))
        self.assertEqual(deep["frames"][-1]["func"].rpartition(".")[2], "_bootstrap")

    def test_locals_without_code_of_the_program(self):
        values = self.take(b"\1")["MainThread"]["frames"][0]["locals"]
        self.assertEqual(values["x"], "41")
        self.assertEqual(values["text"], "'tab\\\\there\\\\nand lines'")
        self.assertEqual(values["many"], "[0, 1, 2, 3, 4, … (1000)]")
        self.assertEqual(values["nested"], "{'a': [1, (…) (2)], 'b': b'\\\\xff'}")
        self.assertTrue(values["loud"].startswith("<Loud at 0x"), values)
        self.assertNotIn(b"repr was called", self.process.printed())

    def test_nothing_is_kept_alive(self):
        self.take(b"\1")
        self.process.eval("go.set(); short.join()")
        try:
            wait_for(lambda: self.process.eval("kept[0]() is None").value == "True")
        finally:
            self.process.eval("go.clear()")

    def test_while_an_eval_of_the_connection_runs(self):
        c = self.process.client()
        c.ask("import time\nwhile True: time.sleep(0.001)", 30)
        time.sleep(0.05)    # so that it runs; if it does not yet, the test is only easier
        c.send(BACKTRACE)
        kind, _ = c.receive()
        self.assertEqual(kind, STACKS)
        c.send(client.INTERRUPT)
        self.assertEqual(c.answer().outcome, client.INTERRUPTED)

    def test_many_stay_within_the_budget(self):
        process = Process(PROGRAM)
        self.addCleanup(process.close)
        c = process.client()

        def allow(budget):
            process.eval("import sys; next(m for n, m in sys.modules.items() if n.endswith('_agent.state'))"
                         ".settings.budget = %r" % budget)

        def take():
            c.send(BACKTRACE, b"\1")
            return c.receive()
        allow(1e-6)     # 30 us
        kinds = [take() for _ in range(5)]
        self.assertEqual([kind == STACKS for kind, _ in kinds], [True] + 4 * [False])
        self.assertIn(b"the budget of 0.0001% allows them", kinds[-1][1])
        allow(1)
        wait_for(lambda: take()[0] == STACKS)

    def test_a_program_without_threading(self):
        process = Process("import os, time\nprint('ready')\nwhile not os.path.exists('stop'): time.sleep(.01)\n",
                          host_threads=False)
        self.addCleanup(process.close)
        c = process.client()
        c.send(BACKTRACE, b"\1")
        kind, payload = c.receive()
        self.assertEqual(kind, STACKS)
        self.assertEqual(parse(payload)["MainThread"]["tid"], process.child.pid)
        self.assertEqual(process.eval("import sys; 'threading' in sys.modules").outcome, client.FINE)


if __name__ == "__main__":
    unittest.main()
