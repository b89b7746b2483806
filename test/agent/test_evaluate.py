"""Code in a live process: names, output, endings, and that nothing of it stays."""
import functools
import json
import os
import signal
import sys
import time
import unittest

import client
from client import Process, wait_for

# A trainer whose main thread is mostly in a function of a function, with everything that has scopes of its own.
TRAINER = """
import gc, os, sys, threading, time, weakref
G = 1
all_losses = [1, 2, 3]
class Tensor:
    pass
refs = []
def step(batch, scale):
    activation = Tensor()
    refs.append(weakref.ref(activation))
    del refs[:-50]
    for _ in range(20):
        time.sleep(0.0005)
    return scale
def main():
    model = {"a": 1}; counter = 0; cell = 5; train_loader = [10, 20]; input = "a local of a builtin's name"; factor = 1; other = "same"
    def inner():
        return cell
    print("ready")
    while not os.path.exists("stop"):
        step(train_loader, factor)
        if os.path.exists("talk"):
            print("T", flush=True)
    print("final", (counter, cell, inner(), model, input, factor, other), flush=True)
main()
"""

MODULE = """
import os, sys, time
x = 41
original = sys.stdout, sys.stderr, sys.stdin
i = 0
print("ready")
while not os.path.exists("stop"):
    i += 1
    time.sleep(0.001)
print("restored", original == (sys.stdout, sys.stderr, sys.stdin))
"""


class Case(unittest.TestCase):
    PROGRAM = MODULE

    @classmethod
    def setUpClass(cls):
        cls.process = Process(cls.PROGRAM)

    @classmethod
    def tearDownClass(cls):
        cls.process.close()

    def run_code(self, code, timeout=30.0):
        return self.process.eval(code, timeout)

    def check(self, code, stdout="", value="", stderr="", exception=None):
        """exception: how the traceback ends."""
        answer = self.run_code(code)
        got = (answer.stdout, answer.value, answer.stderr)
        self.assertEqual(got, (stdout, value, stderr), "%s\n%s" % (code, answer))
        if exception is None:
            self.assertEqual((answer.exception, answer.outcome), ("", client.FINE), code)
        else:
            self.assertTrue(answer.exception.endswith(exception), answer)
            self.assertEqual(answer.outcome, client.FAILED)
        return answer


HOLDER = """
import _imp, os, time
print("ready")
while not os.path.exists("hold"):
    time.sleep(0.001)
_imp.acquire_lock()
open("held", "w").close()
while not os.path.exists("release"):
    time.sleep(0.001)
_imp.release_lock()
time.sleep(0.3)         # who waited for it goes on, and ends
while _imp.lock_held():
    time.sleep(0.001)   # for ever, where it died with it
import colorsys
print("imports", colorsys.__name__)
"""


class Imports(unittest.TestCase):

    @unittest.skipIf(sys.version_info >= (3, 13), "there the agent waits for that lock itself: not yet known where")
    def test_code_that_waits_for_the_lock_of_imports(self):
        """Not interrupted there, it ends without the lock; else the program's next import would wait for ever."""
        process = Process(HOLDER)
        self.addCleanup(process.close)
        path = functools.partial(os.path.join, process.directory)
        # all of ours is loaded then
        self.assertEqual(process.eval("while True: pass", 0.05).outcome, client.TIMEOUT)
        open(path("hold"), "w").close()
        wait_for(lambda: os.path.exists(path("held")))
        answer = process.eval("import wave", 1)     # time enough to come to the lock
        self.assertEqual(answer.outcome, client.GOES_ON, answer)
        open(path("release"), "w").close()
        self.assertEqual(process.child.wait(30), 0)
        self.assertIn(b"imports colorsys", process.printed())


class Names(Case):
    PROGRAM = TRAINER

    def test_globals(self):
        self.check("print(G, len(all_losses)); G + 1", stdout="1 3\n", value="2")
        self.check("'G' in globals(), globals() is __import__('__main__').__dict__, __name__",
                   value="(True, True, '__main__')")

    def test_locals_of_the_running_functions(self):
        self.check("model['a']", value="1")
        self.check("input", value='"a local of a builtin\'s name"')
        self.check("batch is train_loader", value="True")
        self.check("[train_loader[i] + G for i in range(2) if train_loader]", value="[11, 21]")
        self.check("def f(n):\n  return [train_loader[0] + n + model['a'] for _ in range(1)]\nf(1)", value="[12]")
        self.check("class A:\n  z = train_loader[1]\n  def m(self): return train_loader\nA.z, A().m()",
                   value="(20, [10, 20])")
        self.check("(lambda: (lambda: train_loader[0])())()", value="10")
        self.check("list(train_loader[k] for k in (0, 1))", value="[10, 20]")
        self.check("{k: [train_loader for _ in (1,)] for k in train_loader}[10]", value="[[10, 20]]")
        self.check("import contextlib\nwith contextlib.suppress(KeyError):\n  model['zz']\nlen(sorted(train_loader))",
                   value="2")
        self.check("A.__qualname__, f.__qualname__, f.__module__", value="('A', 'f', '__main__')")

    def test_names_that_are_nowhere(self):
        self.check("qqq", exception="NameError: name 'qqq' is not defined\n")
        self.check("def g():\n  return qqq2, model\ng()", exception="NameError: name 'qqq2' is not defined\n")

    def test_assignments(self):
        self.check("import gc as collector\nNEW = len(train_loader)\nNEW", value="2")
        self.check("NEW, collector.isenabled()", value="(2, True)")
        self.check("global G2\nG2 = len(train_loader)\ndef h():\n  global G3\n  G3 = 9\nh()")
        self.check("G2, G3", value="(2, 9)")
        self.check("from math import *\nfloor(train_loader[0] + .5)", value="10")
        self.check("n: int = len(train_loader)\nm: int\nn", value="2")
        self.check("if (seen := train_loader) and True: pass\n[last := k for k in seen], last", value="([10, 20], 20)")
        self.check("from __future__ import annotations\ndef typed(a: NoSuchType): return train_loader[0]\ntyped(1)",
                   value="10")
        self.check("for q in train_loader: pass\nq", value="20")
        self.check("try:\n  train_loader[9]\nexcept IndexError as e:\n  kept = str(e)\nkept",
                   value="'list index out of range'")

    def test_placeholders(self):
        """`name = ...` of a document is no value for a variable that the program has."""
        note = "memgauge: `%s = ...` is left out: the program has that variable, and its value is used\n"
        self.check("factor = ...  # a local\nfactor + 1", value="2", stderr=note % "factor")
        self.check("G = model = ...\nG, model['a']", value="(1, 1)", stderr=note % "G = model")
        self.check("factor, G", value="(1, 1)")
        self.check("own = ...\nown", value="Ellipsis")
        self.check("own = 1")
        self.check("own = ...\nmodel[own] = own; model.pop(...)", value="Ellipsis")    # an eval's own name

    def test_a_function_that_stays(self):
        self.check("count = 0\ndef hook():\n  global count\n  count += train_loader[0]\n  return count")
        self.check("hook(); hook(); count", value="20")

    def test_an_unchanged_local_is_not_written(self):
        self.check("other = other")


class Rebinding(Case):
    PROGRAM = TRAINER

    def test_locals_are_rebound(self):
        self.check("factor = 3; model['a'] = 7")
        self.check("factor", value="3")
        self.check("counter += 100\ncell = 6\nbrandnew = 1")
        self.check("counter, cell, brandnew", value="(100, 6, 1)")
        answer = self.run_code("input = 'x'; 1/0")   # what came before the exception is done
        self.assertEqual(answer.outcome, client.FAILED)
        answer = self.run_code("del other")
        self.assertIn("'other' is a local of main(): it can't be deleted from outside, it was set to None",
                      answer.stderr)
        self.assertEqual(self.process.stop(), 0)
        self.assertIn(b"final (100, 6, 6, {'a': 7}, 'x', 3, None)", self.process.printed())

    def test_hammered(self):
        """Rebinding one local while the trainer changes the others loses none of its steps."""
        process = Process("""
import os
def main():
    a = b = target = 0
    print("ready")
    while not os.path.exists("stop"):
        a += 1
        for _ in range(50): b += 1
    print("sums", a * 50 == b, target)
main()
""")
        self.addCleanup(process.close)
        c = process.client()
        for i in range(1, 41):
            answer = c.eval("target = %d; a, b" % i)
            self.assertEqual((answer.stderr, answer.outcome), ("", client.FINE))
        self.assertEqual(process.stop(), 0)
        self.assertIn(b"sums True 40", process.printed())

    def test_a_blocked_main_thread(self):
        process = Process("import os, time\ndef f():\n  v = 1\n  print('ready')\n  time.sleep(1000)\nf()")
        self.addCleanup(process.close)
        self.assertEqual(process.eval("v").value, "1")
        answer = process.eval("v = 2")
        version = process.eval("import sys; sys.version_info >= (3, 13)").value
        if version == "True":
            self.assertNotIn("not changed", answer.stderr)
            self.assertEqual(process.eval("v").value, "2")
        else:
            self.assertIn("the main thread was busy outside Python for 1 s: v of f() not changed", answer.stderr)

    def test_a_function_that_has_ended(self):
        process = Process("""
import os, time
def short():
    v = 1
    print("ready")
    while not os.path.exists("leave"): time.sleep(0.001)
short()
open("left", "w").close()
while not os.path.exists("stop"): time.sleep(0.001)
""")
        self.addCleanup(process.close)
        answer = process.eval("import os, time\nv = 2\nopen('leave', 'w').close()\n"
                              "while not os.path.exists('left'): time.sleep(0.001)", where=client.ASKED)
        self.assertIn("short() has ended meanwhile: v not changed", answer.stderr)

    def test_locals_dicts_of_the_user(self):
        """`config = locals()` is the very dict that frame.f_locals gives up to 3.12: it must not be emptied."""
        process = Process("""
import os, time
def main():
    lr = 0.1; model = [1]
    config = locals()
    print("ready")
    while not os.path.exists("stop"): time.sleep(0.001)
    print("config", config["lr"], config["model"])
main()
""")
        self.addCleanup(process.close)
        self.assertEqual(process.eval("model.append(2); lr").value, "0.1")
        process.eval("lr = 0.5")
        self.assertEqual(process.eval("lr").value, "0.5")
        self.assertEqual(process.stop(), 0)
        self.assertIn(b"[1, 2]", process.printed())

    def test_under_a_profiler(self):
        """sys.setprofile copies locals to and fro around its calls: a snapshot that we emptied would unbind them."""
        process = Process("""
import os, sys, time
def watch(frame, event, arg): sum(range(20))
def leaf(n): return n
def main():
    model = [1]; total = 0; t = 0
    print("ready")
    while not os.path.exists("stop"):
        total += leaf(1); t += len(model)
    print("sums", total == t, model)
sys.setprofile(watch)
main()
""")
        self.addCleanup(process.close)
        c = process.client()
        for _ in range(30):
            self.assertEqual(c.eval("model[0], t is None").value, "(1, False)")
        self.assertEqual(process.stop(), 0)
        self.assertIn(b"sums True [1]", process.printed())


class Lifetimes(Case):
    PROGRAM = TRAINER

    def alive(self):
        """Activations of steps that are over. Two may be: the running step's, and the one before while it is
        replaced."""
        return int(self.run_code("sum(r() is not None for r in list(refs))").value)

    def test_nothing_of_the_trainer_is_kept(self):
        for code in ("activation", "repr(activation)", "activation, 1/0", "def f():\n  a = activation\n  1/0\nf()",
                     "try:\n  raise ValueError(activation)\nexcept ValueError as e:\n  raise KeyError(activation) from e",
                     "(lambda: activation)()", "[activation for _ in (1,)]",
                     "class Q(Exception): pass\nraise Q(activation)",
                     "print(activation)", "import time\nheld = None\ntime.sleep(0.05); activation"):
            for _ in range(3):
                self.run_code(code)
        self.run_code("while activation: pass", 0.2)
        wait_for(lambda: self.alive() <= 1)

    def test_no_thread_and_no_dict_stays(self):
        self.run_code("1")
        wait_for(lambda: self.run_code("import threading; [t.name for t in threading.enumerate() if 'memgauge' in t.name]").value
                 == "['memgauge-eval']")
        self.check("import linecache; '<memgauge eval>' in linecache.cache", value="False")


class Output(Case):
    def test_order_and_streams(self):
        self.check("import sys\nprint('a'); print('e', file=sys.stderr); sys.stdout.write('b'); print('c', end='')",
                   stdout="a\nbc", stderr="e\n")
        self.check("print('ж', chr(0x1F600), chr(0xD800), sep='')", stdout="ж\U0001F600\\ud800\n")
        self.check("s = chr(0xDCFF); s", value="'\\udcff'")
        self.check("None")
        self.check("x;", value="41")
        self.check("x\n# the end", value="41")
        self.check("")
        self.check("\n\n# nothing\n")
        self.check("    y = x\n    y + 1", value="42")
        self.check("\n\timport sys\n\tif x:\n\t\tprint(1)\n", stdout="1\n")
        self.check("x\r\n", value="41")
        self.check("import warnings; warnings.warn_explicit('careful', UserWarning, 'f.py', 1)",
                   stderr="f.py:1: UserWarning: careful\n")
        self.check("sys.stdout.buffer.write(b'raw\\n'); sys.stdout.writelines(['p', 'q']); sys.stdout.isatty(), sys.stdout.encoding",
                   stdout="raw\npq", value="(False, 'utf-8')")
        self.check("sys.stdout.write(3)", exception="TypeError: write() argument must be str, not int\n")
        self.check("sys.stdout.fileno()", exception="this stream belongs to a memgauge eval\n")

    def test_ten_megabytes(self):
        answer = self.run_code("for n in range(10):\n  print('%d' % n * (1 << 20), end='')")
        self.assertEqual(len(answer.stdout), 10 << 20)
        self.assertTrue(answer.stdout == "".join(str(n) * (1 << 20) for n in range(10)))
        answer = self.run_code("for n in range(100000): print(n)")
        self.assertEqual(answer.stdout, "".join("%d\n" % n for n in range(100000)))
        answer = self.run_code("print('ж' * 1000000, end='')")
        self.assertEqual(answer.stdout, "ж" * 1000000)

    def test_it_streams(self):
        c = self.process.client()
        c.ask("import os, time\nprint('first', end='')\nwhile not os.path.exists('go'): time.sleep(0.005)\nprint('second')")
        self.assertEqual(c.receive(), (client.OUTPUT, b"\x01first"))
        open(os.path.join(self.process.directory, "go"), "w").close()
        self.assertEqual(c.answer().stdout, "second\n")

    def test_a_client_that_doesnt_read(self):
        """The code waits, with bounded memory; its time limit still holds, and others are served."""
        c = self.process.client()
        c.ask("while True: print('y' * 100000)", timeout=0.5)
        self.assertEqual(self.run_code("x").value, "41")
        wait_for(lambda: [e for e in self.process.events() if e["name"] == "eval" and "'y'" in e["text"]])
        answer = c.answer()
        self.assertEqual(answer.outcome, client.TIMEOUT)
        self.assertLess(len(answer.stdout), 64 << 20)

    def test_a_huge_value(self):
        answer = self.run_code("'a' * 5000000")
        self.assertLess(len(answer.value), 1 << 20)
        self.assertTrue(answer.value.endswith("… [a repr of 5000002 characters, cut]"), answer.value[-60:])
        answer = self.run_code("'ж' * 500000")
        self.assertEqual(len(answer.value), 500002)

    def test_values_that_resist(self):
        self.check("class R:\n  def __repr__(self): return 1/0\nR()", exception="ZeroDivisionError: division by zero\n")
        self.check("class P:\n  def __repr__(self):\n    print('inside'); return 'P!'\nP()", stdout="inside\n",
                   value="P!")
        answer = self.run_code("class H:\n  def __repr__(self):\n    while True: pass\nH()", 0.2)
        self.assertEqual(answer.outcome, client.TIMEOUT)
        answer = self.run_code("class E(Exception):\n  def __str__(self):\n    while True: pass\nraise E", 0.2)
        self.assertEqual(answer.outcome, client.TIMEOUT)
        self.assertIn("E", answer.exception)

    def test_its_threads_print_there_too(self):
        self.check("import threading\nt = threading.Thread(target=print, args=('from a thread',)); t.start(); t.join()",
                   stdout="from a thread\n")
        code = ("import os, threading, time\ndef later():\n  while not os.path.exists('late'): time.sleep(0.005)\n  print('too late', flush=True)\n"
                "threading.Thread(target=later).start()")
        self.check(code)
        open(os.path.join(self.process.directory, "late"), "w").close()
        wait_for(lambda: b"too late" in self.process.printed())

    def test_two_at_once(self):
        a, b = self.process.client(), self.process.client()
        for c, name in ((a, "a"), (b, "b")):
            c.ask("import time\nfor n in range(200):\n  print(%r, n)\n  time.sleep(0.0005)" % name)
        self.assertEqual(a.answer().stdout, "".join("a %d\n" % n for n in range(200)))
        self.assertEqual(b.answer().stdout, "".join("b %d\n" % n for n in range(200)))

    def test_redirected(self):
        self.check("import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()) as s: print('kept')\nprint('out'); s.getvalue()",
                   stdout="out\n", value="'kept\\n'")

    def test_streams_are_put_back(self):
        process = Process(MODULE)
        self.addCleanup(process.close)
        process.eval("print(1)")
        process.eval("while True: pass", 0.1)
        process.stop()
        self.assertIn(b"restored True", process.printed())

    def test_a_stream_that_the_code_replaced_stays(self):
        process = Process(MODULE)
        self.addCleanup(process.close)
        process.eval("import sys; sys.stdout = open('log', 'w')")
        process.stop()
        with open(os.path.join(process.directory, "log")) as f:
            self.assertEqual(f.read(), "restored False\n")

    def test_the_trainers_output_is_its_own(self):
        process = Process("import os, sys\nout = sys.stdout\nprint('ready')\nn = 0\nwhile not os.path.exists('stop'):\n"
                          "  n += 1; print('T', n); out.write('U%d\\n' % n)\nprint('sum', n)")
        self.addCleanup(process.close)
        c = process.client()
        for _ in range(20):
            self.assertEqual(c.eval("for _ in range(50): print('mine')").stdout, "mine\n" * 50)
        process.stop()
        lines = process.printed().decode().splitlines()
        n = int(lines[-1].split()[1])
        self.assertEqual(lines[1:-1], [line for k in range(1, n + 1) for line in ("T %d" % k, "U%d" % k)])


class Endings(Case):
    def test_exceptions(self):
        answer = self.check("def f():\n    return 1/0\nf()", exception="ZeroDivisionError: division by zero\n")
        self.assertTrue(answer.exception.startswith("Traceback (most recent call last):\n"
                                                    '  File "<memgauge eval>", line 3, in <module>\n    f()\n'),
                                                    answer.exception)
        self.assertIn('  File "<memgauge eval>", line 2, in f\n    return 1/0\n', answer.exception)
        self.assertNotIn("evaluate.py", answer.exception)
        answer = self.check("try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError('k') from e",
                            exception="KeyError: 'k'\n")
        self.assertIn("The above exception was the direct cause of the following exception:", answer.exception)
        answer = self.check("a = (1,\nb =", exception=("SyntaxError: invalid syntax\n",
                                                       "SyntaxError: '(' was never closed\n"))
        self.assertTrue(answer.exception.startswith('  File "<memgauge eval>", line'), answer.exception)
        self.assertIn("^", answer.exception)
        self.check("return 1", exception="SyntaxError: 'return' outside function\n")
        self.check("x = '\0'", exception="null bytes\n")
        self.check("raise SystemExit(3)", exception="SystemExit: 3\n")
        self.check("import sys; sys.exit()", exception="SystemExit\n")
        self.check("raise KeyboardInterrupt", exception="KeyboardInterrupt\n")
        self.check("exit()", exception="SystemExit: None\n")
        self.check("def f(): f()\nf()", exception=("RecursionError: maximum recursion depth exceeded\n",
                                                   "RecursionError: maximum recursion depth exceeded while calling a Python object\n"))
        self.assertEqual(self.run_code("x").value, "41")

    def test_a_system_exit_in_a_thread(self):
        self.check("import sys, threading\nt = threading.Thread(target=sys.exit); t.start(); t.join(); t.is_alive()",
                   value="False")

    def test_input_finds_the_end(self):
        self.check("input('name? ')", stdout="name? ", exception="EOFError: EOF when reading a line\n")
        self.check("import sys; sys.stdin.read(), sys.stdin.readline(), list(sys.stdin)", value="('', '', [])")

    def test_time_limits(self):
        for code in ("while True: pass", "try:\n  while True: pass\nexcept Exception: pass",
                     "import time\nwhile True:\n  try:\n    while True: time.sleep(0.001)\n  except BaseException:\n    time.sleep(0.01); raise",
                     "while x: y = x"):
            began = time.monotonic()
            answer = self.run_code("print('x')\n" + code, 0.5)     # time enough to begin
            self.assertEqual((answer.outcome, answer.stdout), (client.TIMEOUT, "x\n"), code)
            self.assertTrue(0.49 < time.monotonic() - began < 20, code)
        self.assertIn("memgauge.EvalTimeout: the code ran into its time limit", answer.exception)
        self.assertIn("while x: y = x", answer.exception)
        answer = self.run_code("def g():\n  while True: pass\ntry:\n  g()\nexcept BaseException: print('swallowed')",
                               0.5)
        self.assertEqual((answer.outcome, answer.stdout), (client.TIMEOUT, "swallowed\n"))

    def test_no_time_limit(self):
        self.assertEqual(self.run_code("import time; time.sleep(0.05); x", 0).value, "41")

    def test_code_that_cant_be_interrupted(self):
        self.assertEqual(self.run_code("import os; r, w = os.pipe()").outcome, client.FINE)
        began = time.monotonic()
        answer = self.run_code("print('in')\nos.read(r, 1)\nprint('out of it', flush=True)", 0.5)
        self.assertGreater(time.monotonic() - began, 1.4)
        self.assertEqual((answer.outcome, answer.stdout), (client.GOES_ON, "in\n"))
        self.assertIn('  File "<memgauge eval>", line 2, in <module>\n    os.read(r, 1)\n', answer.exception)
        self.assertIn("blocked outside Python", answer.exception)
        self.assertEqual(self.run_code("os.write(w, b'x')").value, "1")
        wait_for(lambda: "memgauge-eval" not in
                 self.run_code("import threading; [t.name for t in threading.enumerate() if t is not threading.current_thread()]").value)
        self.assertNotIn(b"out of it", self.process.printed())   # the interruption still came, at the end of the call

    def test_interrupt(self):
        c = self.process.client()
        c.ask("print('on', end='')\nwhile True: pass")
        self.assertEqual(c.receive()[0], client.OUTPUT)
        c.send(client.INTERRUPT)
        answer = c.answer()
        self.assertEqual(answer.outcome, client.INTERRUPTED)
        self.assertIn("memgauge.EvalInterrupted", answer.exception)
        self.assertEqual(c.eval("x").value, "41")
        c.send(client.INTERRUPT)   # nothing runs: nothing happens
        self.assertEqual(c.eval("x").value, "41")

    def test_interruptions_at_every_moment(self):
        """None may be lost, and none may hit our own code: each gets an answer and the process stays whole."""
        c = self.process.client()
        for n in range(60):
            answer = c.eval("def f(k): return k and f(k - 1)\nfor _ in range(3000): f(5)\nprint(1)", 0.0005 * (n + 1))
            self.assertIn(answer.outcome, (client.FINE, client.TIMEOUT), answer)
        self.assertEqual(c.eval("x").value, "41")
        self.assertNotIn(b"Traceback", self.process.printed())

    def test_the_interpreter_is_as_fast_as_before(self):
        """Up to CPython 3.12 an asynchronous exception that is taken back slows every later jump of the program down,
        and stops one that is traced for good."""
        c = self.process.client()
        traced = ("import sys\ndef f(n):\n  return n and f(n - 1)\nsys.settrace(lambda *a: None)\ntry: f(20)\n"
                  "finally: sys.settrace(None)\nprint('through')")
        for _ in range(3):
            self.assertEqual(c.eval("while True: pass", 0.02).outcome, client.TIMEOUT)
            self.assertEqual(c.eval(traced, 10).stdout, "through\n")
            self.assertEqual(c.eval("for _ in range(300): f = [x for x in range(100)]", 0.001).outcome in (client.FINE,
                client.TIMEOUT), True)
            self.assertEqual(c.eval(traced, 10).stdout, "through\n")

    def test_code_that_kills_the_process(self):
        for code, status in (("import os; os._exit(3)", 3), ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL)):
            process = Process(MODULE)
            self.addCleanup(process.close)
            with self.assertRaises((EOFError, ConnectionResetError)):
                process.eval(code)
            self.assertEqual(process.child.wait(20), status)
            self.assertEqual([(e["name"], e["text"]) for e in process.events()], [("eval begin", code)])

    def test_events(self):
        process = Process(MODULE)
        self.addCleanup(process.close)
        process.eval("x # " + "y" * 5000)
        process.eval("1/0")
        events = [e for e in process.events() if e["name"] == "eval"]
        self.assertEqual([(len(e["text"]), e["a"]) for e in events], [(2000, 0), (3, 1)])
        self.assertTrue(all(0 < e["b"] < 10000000 for e in events), json.dumps(events))

    def test_imports(self):
        self.check("import wave, colorsys\nfrom string import ascii_lowercase as letters\nletters[:3]", value="'abc'")
        self.check("letters[0], wave.__name__", value="('a', 'wave')")

    def test_the_device_is_the_main_threads(self):
        """torch.cuda stood in for: two devices, the current one belongs to a thread, as CUDA has it."""
        process = Process("""
import os, sys, threading, time, types
mine = threading.local()
torch = sys.modules["torch"] = types.ModuleType("torch")
torch.cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 2, set_device=lambda n: setattr(mine, "n", n),
                                   current_device=lambda: getattr(mine, "n", 0))
torch.cuda.set_device(1)
print("ready")
while not os.path.exists("block"): time.sleep(0.001)
print("blocked")
time.sleep(1000)
""")
        self.addCleanup(process.close)
        self.assertEqual(process.eval("torch.cuda.current_device()").value, "1")
        open(os.path.join(process.directory, "block"), "w").close()
        wait_for(lambda: b"blocked" in process.printed())
        self.assertEqual(process.eval("torch.cuda.current_device()").value, "1")

    def test_a_program_without_threads(self):
        """The import of threading must not make our thread pass for the main one, not even while that is blocked."""
        process = Process("import sys, time\nprint('threading' in sys.modules)\ndef f():\n  v = 1\n  print('ready')\n"
                          "  sys.stdin.read()\nf()", host_threads=False)
        self.addCleanup(process.close)
        self.assertEqual(process.printed(), b"False\nready\n")
        code = ("import threading, os\nm = threading.main_thread()\n"
                "m.native_id == os.getpid(), m is threading.current_thread(), threading._active[m.ident] is m, m.is_alive(), v")
        self.assertEqual(process.eval(code).value, "(True, False, True, True, 1)")
        process.child.stdin.close()
        self.assertEqual(process.child.wait(20), 0)
        self.assertEqual(process.printed(), b"False\nready\n")


if __name__ == "__main__":
    unittest.main()
