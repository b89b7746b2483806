"""Where the code of an eval runs: the main thread stands still for it, or waits, or the code does not begin."""
import os
import signal
import sys
import threading
import time
import types
import unittest

import client
from client import Process, wait_for
from memgauge._agent import gil, life, mainthread, state, thread
from memgauge._agent.evaluate import hindrance, job, moment

# It counts as fast as it can; what is sent to it by name is done between two counts.
COUNTER = """
import os, signal, sys, threading, time
n, seen = 0, []
lock = threading.Lock()
signal.signal(signal.SIGUSR1, lambda *_: seen.append(n))
def leave(*_):
    raise SystemExit(7)
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell's background job ignores it
class Alarm(Exception):
    pass
def alarm(*_):
    raise Alarm("rung", n)
signal.signal(signal.SIGALRM, alarm)
print("ready")
def work():      # a try around the loop itself would not cover its JUMP_BACKWARD in every version
    global n
    while not os.path.exists("stop"):
        for _ in range(1000):
            with lock:
                n += 1
while not os.path.exists("stop"):
    try:
        work()
    except (KeyboardInterrupt, Alarm) as error:
        if lock.locked():       # an exception may come between a with statement's body and its end (bpo-29988)
            lock.release()
        print("caught", type(error).__name__, error.args[:1], flush=True)
"""

WAITS = {
    "sleep": "time.sleep(1000)", "input": "sys.stdin.readline()",
    "lock": "lock = threading.Lock(); lock.acquire(); lock.acquire()",
    "queue": "queue.Queue().get()", "event": "threading.Event().wait()", "select": "select.select([r], [], [])",
    "read": "os.read(r, 1)",
    "join": "t = threading.Thread(target=time.sleep, args=(1000,), daemon=True); t.start(); t.join()",
    "child": "subprocess.call(['sleep', '20'])",
}
WAITER = """
import os, queue, select, subprocess, sys, threading, time
r, w = os.pipe()
def main(secret=42):
    print("ready")
    %s
main()
"""


def begun(process, code):
    wait_for(lambda: [e for e in process.events() if e["name"] == "eval begin" and code[:100] in e["text"]])


class StandsStill(unittest.TestCase):
    def setUp(self):
        self.process = Process(COUNTER)
        self.addCleanup(self.process.close)

    def test_the_main_thread_does(self):
        answer = self.process.eval("import time\na = n; time.sleep(0.1); b = n\nb - a, a > 0")
        self.assertEqual((answer.value, answer.place, answer.stderr), ("(0, True)", client.MAIN, ""))
        answer = self.process.eval("a = n; time.sleep(0.1); n > a", where=client.ASKED)
        self.assertEqual((answer.value, answer.place), ("True", client.ASKED))
        answer = self.process.eval("threading.current_thread() is threading.main_thread(), n", where=client.MAIN)
        self.assertTrue(answer.value.startswith("(False, "), "its interruption must not hit the trainer")

    def test_it_goes_on_after_every_ending(self):
        for code, timeout in (("1/0", 30), ("raise SystemExit(3)", 30), ("while True: pass", 0.1),
                              ("raise KeyboardInterrupt", 30),
                              ("import os, sys\npid = os.fork()\nif pid: os.waitpid(pid, 0)", 30)):
            self.process.eval(code, timeout)
            before = int(self.process.eval("n", where=client.ASKED).value)
            wait_for(lambda: int(self.process.eval("n", where=client.ASKED).value) > before)

    def test_a_handler_that_raises_ends_the_code_and_reaches_the_trainer(self):
        for number, said in ((signal.SIGINT, b"caught KeyboardInterrupt ()"),
                             (signal.SIGALRM, b"caught Alarm ('rung',)")):
            c = self.process.client()
            c.ask("print('in\\n', end='')\nwhile True: pass")
            self.assertEqual(c.receive(), (client.OUTPUT, b"\x01in\n"))
            self.process.child.send_signal(number)
            self.assertEqual(c.answer().outcome, client.INTERRUPTED)
            wait_for(lambda: said in self.process.printed())
            before = int(self.process.eval("n", where=client.ASKED).value)
            # it is back where it catches
            wait_for(lambda: int(self.process.eval("n", where=client.ASKED).value) > before)
        self.assertEqual(self.process.eval("n > 0").value, "True")

    def test_a_handlers_exit_keeps_its_code(self):
        c = self.process.client()
        c.ask("print('in\\n', end='')\ntry:\n  while True: pass\nexcept Exception: pass")
        self.assertEqual(c.receive(), (client.OUTPUT, b"\x01in\n"))
        self.process.child.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.child.wait(20), 7, self.process.printed())

    def test_a_handler_that_returns_is_run_at_once(self):
        c = self.process.client()
        c.ask("import time\nprint('in\\n', end='')\nwhile not seen: time.sleep(0.001)\nseen[0] == n")
        self.assertEqual(c.receive(), (client.OUTPUT, b"\x01in\n"))
        self.process.child.send_signal(signal.SIGUSR1)
        self.assertEqual(c.answer().value, "True")

    def test_code_that_blocks_lets_it_go(self):
        """A call that does not return; a lock that the main thread holds where it stands, most of the time."""
        c = self.process.client()
        # the very first word may have to wait for Python's lock for seconds
        self.assertEqual(c.eval("1").value, "1")
        answer = c.eval("import time; time.sleep(15)", 3)
        self.assertEqual(answer.outcome, client.GOES_ON)
        for _ in range(5):
            self.assertIn(self.process.eval("with lock: pass", 0.1).outcome,
                          (client.FINE, client.GOES_ON, client.TIMEOUT))
        before, began = int(self.process.eval("n", where=client.ASKED).value), time.monotonic()

        def goes_on():
            # since 3.14 an interruption that comes just as `with` has got its lock leaves it locked (bpo-29988)
            if sys.version_info >= (3, 14) and time.monotonic() > began + 3:
                self.process.eval("lock.release()", where=client.ASKED)
            return int(self.process.eval("n", where=client.ASKED).value) > before
        wait_for(goes_on)

    def test_a_main_thread_that_lets_go_of_pythons_lock_for_moments(self):
        """Whoever waits for the lock is never asked for it, and not awake in time: without gil.py, code began after
        seconds."""
        self.process = Process("import os, sys\nprint('ready')\nn = 0\nwhile not os.path.exists('stop'):\n  for _ in range(10000): n += 1")
        self.addCleanup(self.process.close)
        c = self.process.client()
        for _ in range(30):
            answer = c.eval("n", 5)
            self.assertEqual((answer.outcome, answer.place), (client.FINE, client.MAIN), answer)

    def test_the_switch_interval_is_the_programs(self):
        c = self.process.client()
        self.assertEqual(c.eval("import sys; sys.getswitchinterval()").value, "0.005")
        self.assertEqual(c.eval("sys.setswitchinterval(0.002); sys.getswitchinterval()").value, "0.002")
        for where in (client.MAIN, client.ASKED):
            self.assertEqual(self.process.eval("sys.getswitchinterval()", where=where).value, "0.002")
        slack = "open('/proc/%d/timerslack_ns' % threading.get_native_id()).read()"
        with open("/proc/self/timerslack_ns") as f:
            self.assertEqual(c.eval("import threading; " + slack).value, repr(f.read()))
        child = "pid = os.fork()\nif not pid: os._exit(sys.getswitchinterval() == 0.002)\nos.waitpid(pid, 0)[1] >> 8"
        self.assertEqual(c.eval(child).value, "1")
        c.ask("n", 0.2, where=client.STEP)      # it never begins
        self.assertEqual(c.answer().outcome, client.TIMEOUT)
        seen = "import time; end = time.monotonic() + 20\nwhile %s and time.monotonic() < end: time.sleep(0.01)\nsys.getswitchinterval()"
        self.assertEqual(c.eval(seen % "sys.getswitchinterval() != 0.002", where=client.ASKED).value, "0.002")

    def test_evals_inside_of_evals(self):
        """The code asks for another eval in the same process, and waits for it."""
        code = ("import sys; sys.path.insert(0, %r)\nfrom client import Client\nc = Client(%r)\na = n\ninner = c.eval('n', 20)\nc.close()\n"
                "inner.value == str(a), n == a" % (client.HERE, self.process.path))
        answer = self.process.eval(code)
        self.assertEqual((answer.value, answer.exception), ("(True, True)", ""))

    def test_a_main_thread_that_stands_still_is_not_idle(self):
        """The second joins the first; the third comes when no more may join, and waits for the next stop."""
        first, second, third = (self.process.client() for _ in range(3))
        def until_stop(condition):
            code = "stop = __import__('sys').modules['memgauge._agent.mainthread'].stopped; bool(stop and %s)" % condition
            wait_for(lambda: self.process.eval(code, where=client.ASKED).value == "True")
        waits = "while not os.path.exists(%r): time.sleep(0.01)"
        first.ask(waits % "first")
        until_stop("stop.visits")
        second.ask(waits % "second")
        until_stop("len(stop.visits) == 2")
        self.process.eval("open('first', 'w').close()", where=client.ASKED)
        self.assertEqual(first.answer().place, client.MAIN)
        until_stop("not stop.open")
        third.ask("n")
        self.process.eval("time.sleep(0.3); open('second', 'w').close()", where=client.ASKED)
        self.assertEqual(second.answer().place, client.MAIN)
        self.assertEqual(third.answer().place, client.MAIN)

    def test_a_hundred_at_random(self):
        before = int(self.process.eval("n").value)
        cs = [self.process.client() for _ in range(4)]
        for turn in range(25):
            for c in cs:
                c.ask("a = n\nfor _ in range(100): pass\na == n")
            for c in cs:
                answer = c.answer()
                self.assertEqual((answer.value, answer.outcome), ("True", client.FINE), answer)
        self.assertGreater(int(self.process.eval("n").value), before)
        self.assertNotIn(b"Traceback", self.process.printed())


class SwitchInterval(unittest.TestCase):
    def test_it_is_put_back_whatever_comes_last(self):
        before = sys.getswitchinterval()
        self.addCleanup(sys.setswitchinterval, before)
        self.addCleanup(gil.serve, False)
        gil.hurry()
        self.assertEqual(sys.getswitchinterval(), before, "there is no control thread that would put it back")
        gil.serve(True)
        gil.hurry()
        self.assertLess(sys.getswitchinterval(), before)
        self.assertGreater(gil.due(), time.monotonic() - gil.LONGEST)
        gil.serve(False)
        gil.hurry()         # the end of code that went on after a detach
        self.assertEqual((sys.getswitchinterval(), gil.due()), (before, None))
        gil.serve(True)
        gil.hurry()
        sys.setswitchinterval(0.5)
        gil.calm()
        self.assertEqual(sys.getswitchinterval(), 0.5, "the program's own wish stands")
        gil.hurry()
        gil.after_fork()
        self.assertEqual(sys.getswitchinterval(), 0.5)


class JobsPlace:
    """A Job, as far as a visit sees it."""

    def unwanted(self):
        return False


class EndsBetween:
    """A stop that others may join when they ask first, and no more when they ask again."""
    place = moment.MAIN

    def __init__(self):
        self.ident, self.visits, self.asked = mainthread.ident(), [], 0

    @property
    def open(self):
        self.asked += 1
        return self.asked == 1


class Rung(Exception):
    """What a signal handler of the program's raises."""


class HandlersAnywhere(unittest.TestCase):
    """A handler that raises, once for every line of ours that the main thread runs: it reaches the program, the main
    thread does not stand still afterwards, and the code is interrupted, or begins another time."""

    def setUp(self):
        self.addCleanup(sys.settrace, sys.gettrace())
        self.addCleanup(setattr, moment, "_arm", moment._arm)
        moment._arm = lambda: None       # this test is the main thread, and comes by when it says so
        self.addCleanup(setattr, hindrance, "of", hindrance.of)
        hindrance.of = lambda frame: ("", False)     # the callers that it would look at are this test's
        self.addCleanup(setattr, moment.Idle, "look", moment.Idle.look)
        moment.Idle.look = lambda idle, visit, armed: False     # nor does the code begin beside it while it sleeps

    def test_while_it_stands_still(self):
        line, rung = 0, True
        while rung:
            line += 1
            rung = self.came_by(line)
        self.assertGreater(line, 40)

    def came_by(self, line):
        """The main thread comes by; a signal comes before the nth line that it runs. Whether there were so many."""
        ended, seen = threading.Event(), []
        j = job.Job("import time\nwhile True: time.sleep(0.001)", 0.05, lambda: None, lambda job: ended.set())

        def trace(frame, event, arg):
            if event == "line" and os.sep + "evaluate" + os.sep in frame.f_code.co_filename:
                seen.append(j.outcome is None and mainthread.stopped is not None)
                if len(seen) == line:
                    raise Rung
            return trace

        def keep_time():
            while not ended.wait(0.001):
                j.tick()
        j.start()
        wait_for(lambda: moment._waiting)
        ticks = threading.Thread(target=keep_time)
        j.deadline = time.monotonic() + 0.05
        ticks.start()
        sys.settrace(trace)
        try:
            self.pending_call()
            rung = False
        except Rung:
            rung = True
        finally:
            sys.settrace(None)
        late = time.monotonic() >= j.deadline    # on a busy machine its time may have been over before it began
        self.assertEqual(rung, len(seen) >= line, "line %d: what the handler raised did not reach the program" % line)
        self.assertIsNone(mainthread.stopped, "line %d" % line)
        self.assertTrue(ended.wait(20), "line %d: the code goes on" % line)
        ticks.join(20)
        if rung and seen[-1] and not late:
            self.assertEqual(j.outcome, client.INTERRUPTED, "line %d" % line)
        return rung

    def pending_call(self):
        def from_c():
            moment._came_by()
        from_c()


class AtTheEnd(unittest.TestCase):
    def test_a_pending_call_with_no_frame_below_it(self):
        """The interpreter runs pending calls once more as it ends, when the program's last frame is gone. An exception
        of ours would be the program's exit code."""
        import ctypes
        told = []
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = told.append
        moment._arm()
        # a thread of C's own calls bool(), as the interpreter does, from no frame of Python's
        called = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.py_object)(bool)
        thread, libc = ctypes.c_ulong(), ctypes.CDLL(None)
        stopper = ctypes.py_object(moment._stopper[1])
        self.assertEqual(libc.pthread_create(ctypes.byref(thread), None, called, stopper), 0)
        self.assertEqual(libc.pthread_join(thread, None), 0)
        self.assertEqual(told, [])


class Forks(unittest.TestCase):
    def test_a_main_thread_that_forks_is_not_stopped(self):
        """Hooks that other modules have at os.fork hold their locks meanwhile (concurrent.futures does), and the code's
        own fork would wait for them until its time is over."""
        seen = []
        stop = thread.stop
        self.addCleanup(setattr, thread, "stop", stop)
        self.addCleanup(setattr, state, "current", state.current)
        thread.stop = lambda s: seen.append(hindrance.of(sys._getframe())) or True
        state.current = types.SimpleNamespace(thread=None)
        life._before_fork()
        self.assertEqual(seen, [("it is in a fork, or ends", True)])


class Decided(unittest.TestCase):
    """Whoever takes the claim says where the code begins; a place left over from a try that failed would hold the main
    thread."""

    def test_a_stop_that_ends_while_it_is_joined(self):
        visit = moment.Visit(JobsPlace(), moment.MAIN)
        self.addCleanup(setattr, mainthread, "stopped", None)
        mainthread.stopped = EndsBetween()
        self.assertFalse(visit._join())
        self.assertEqual((visit.place, visit.stop, visit.claim, mainthread.stopped.visits), (None, None, [True], []))

    def test_a_thread_that_gets_no_core_after_it_gave_up_waiting(self):
        """It has taken its claim, and will say that the code never began: that is the answer, also if it comes
        later."""
        ended = []
        j = job.Job("1", 0.01, lambda: None, ended.append, moment.STEP)
        j.source, j._thread = "1", threading.current_thread()
        self.assertTrue(j.visit.take())
        j.interrupt(job.EvalTimeout)
        j._give_up()
        self.assertEqual((j.outcome, ended), (client.TIMEOUT, [j]))
        self.assertIn("the code did not begin", j.error)
        j._give_up()
        self.assertEqual(ended, [j])

    def test_a_main_thread_that_comes_by_while_it_is_taken_for_idle(self):
        visit = moment.Visit(JobsPlace(), moment.MAIN)
        idle = moment.Idle()
        self.assertTrue(visit.take())        # by the main thread
        self.assertFalse(visit._begin_beside(idle))
        self.assertEqual((visit.place, moment._gates), (None, []))
        visit.claim[:] = [True]
        self.assertTrue(visit._begin_beside(idle))
        self.assertEqual((visit.place, moment._gates), (moment.IDLE, [visit]))
        visit.leave()
        self.assertEqual(moment._gates, [])


class Waiting(unittest.TestCase):
    def test_main_threads_that_wait(self):
        for name in sorted(WAITS):
            with self.subTest(name):
                process = Process(WAITER % WAITS[name])
                self.addCleanup(process.close)
                began = time.monotonic()
                answer = process.eval("secret")
                self.assertEqual((answer.value, answer.place), ("42", client.IDLE), answer)
                self.assertLess(time.monotonic() - began, 10)
                self.assertRegex(answer.stderr,
                                 r"^memgauge: the main thread waits in \w+\(\) \(.*:\d+\): the code ran beside it\n$")

    def test_a_wait_that_ends_meanwhile(self):
        """The main thread stands still as soon as it comes by."""
        process = Process("import os, time\nn = 0\nprint('ready')\nwhile not os.path.exists('wake'): time.sleep(0.5)\n"
                          "while not os.path.exists('stop'): n += 1")
        self.addCleanup(process.close)
        answer = process.eval("import time\nopen('wake', 'w').close()\ntime.sleep(1)\nn")
        self.assertEqual((answer.value, answer.place), ("0", client.IDLE))
        wait_for(lambda: int(process.eval("n").value) > 0)

    def test_c_code_that_computes(self):
        """Nothing tells what it changes: the code does not begin, and the answer says where the main thread is."""
        process = Process("import hashlib\ndef digest():\n  print('ready')\n  hashlib.pbkdf2_hmac('sha256', b'', b'', 1 << 30)\ndigest()")
        self.addCleanup(process.close)
        answer = process.eval("print('never')", 0.5)
        self.assertEqual((answer.outcome, answer.stdout, answer.place), (client.TIMEOUT, "", None))
        self.assertIn("in digest\n    hashlib.pbkdf2_hmac(", answer.exception)
        self.assertIn("the code did not begin: the main thread came to no place where it could be stopped",
                      answer.exception)
        answer = process.eval("1 + 1", where=client.ASKED)
        self.assertEqual((answer.value, answer.place), ("2", client.ASKED))
        c = process.client()
        c.ask("1")
        begun(process, "1")
        c.send(client.INTERRUPT)
        self.assertEqual(c.answer().outcome, client.INTERRUPTED)
        answer = process.eval("a = (1,\nb =", 0.5)      # what nothing has to be waited for
        self.assertEqual(answer.outcome, client.FAILED)

    def test_a_step_that_never_ends(self):
        process = Process(COUNTER)
        self.addCleanup(process.close)
        answer = process.eval("n", 0.3, where=client.STEP)
        self.assertEqual(answer.outcome, client.TIMEOUT)
        self.assertIn("no step has ended", answer.exception)

    def test_our_own_requests_are_no_events(self):
        process = Process(COUNTER)
        self.addCleanup(process.close)
        self.assertEqual(process.eval("n >= 0", where=client.ASKED, own=True).value, "True")
        self.assertEqual(process.events(), [])


if __name__ == "__main__":
    unittest.main()
