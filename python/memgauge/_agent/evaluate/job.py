"""Runs code that a client sent, each on a daemon thread of its own, and says how it ended.

The thread waits until it may begin (moment.py), executes the code, renders the result and finishes; the control thread
only watches the deadline. An interruption is our own exception, which PyThreadState_SetAsyncExc raises in the eval's
thread and nowhere else. It is raised only while the thread is *armed*, that is, inside the user's code or their
__repr__; after `_disarm` no interruption is pending any more.
"""
import _thread
import sys
from _operator import attrgetter, itemgetter
from itertools import filterfalse, repeat, starmap
from time import monotonic, perf_counter_ns, sleep

from .. import frames, gil, mainthread
from . import moment, rendering, scope, streams, threadsetup

FINE, EXCEPTION, TIMEOUT, INTERRUPTED, GOES_ON = range(5)

REQUESTS = (moment.MAIN, moment.STEP, moment.ASKED)

GRACE = 1.0      # s from the first interruption to giving the code up
AGAIN = 0.05     # s between interruptions of code that swallows them


class Interruption(BaseException):
    """Not an Exception, so that `except Exception` lets it pass."""
    outcome = INTERRUPTED


class EvalTimeout(Interruption):
    outcome = TIMEOUT

    def __str__(self):
        return "the code ran into its time limit"


class EvalInterrupted(Interruption):

    def __str__(self):
        return "the code was interrupted"


EvalTimeout.__module__ = EvalInterrupted.__module__ = "memgauge"   # what a traceback shows


class Job:
    """One eval. `signal()` is called when output waits in `sink.queue`; `finished(job)` once, when outcome, value and
    error are final, from the job's thread or from the one that calls tick()."""

    def __init__(self, source, timeout, signal, finished, where=moment.MAIN, own=False):
        """`where`: one of moment's requests. `own`: memgauge itself asks, for code that touches nothing of the
        program's."""
        self.source, self.own = source, own
        self.timeout = timeout
        self.deadline = monotonic() + timeout if 0 < timeout < 1e9 else None   # 0: no limit
        self.sink = streams.Sink(signal)
        self.finished = finished
        self.look = signal         # has the control thread call tick()
        self.visit = moment.Visit(self, where)
        self.outcome, self.value, self.error = None, "", ""
        self.began = self.ended = 0    # ns; 0 while the code has not begun
        self._thread = None
        self._claim = [True]       # whoever pops it finishes the job
        self._armed = self._firing = False
        self._entered = False      # the thread may begin, and checks next whether it was interrupted
        self._why = None           # the interruption that was requested
        self._since = self._next = 0.0

    def start(self):
        import os
        self._pid = os.getpid()
        self._thread = threadsetup.threading_module().Thread(target=self._work, name="memgauge-eval", daemon=True)
        self._thread.start()

    @property
    def nanoseconds(self):
        return self.ended - self.began if self.began else 0

    # ------------------------------------------------------------ the thread that keeps the time

    def interrupt(self, why=EvalInterrupted):
        if self._why is None:
            self._why = why
            self._since = self._next = monotonic()

    def tick(self):
        """Interrupts the code or gives it up when that is due. Returns when to call again (monotonic s), None for
        never."""
        now = monotonic()
        if self.outcome is not None and not self._thread.is_alive():
            return None
        if self._why is None:
            if self.deadline is None or self.outcome is not None:
                return None
            if now < self.deadline:
                return self.deadline
            self.interrupt(EvalTimeout)
        if now >= self._next:
            if self._next == self._since:
                # the code has its grace from the first interruption on, also if nobody kept the time
                self._since = now
            self._fire()
            self._next = now + (AGAIN if self.outcome is None else GRACE)
        if self.outcome is None and now >= self._since + GRACE:
            self._give_up()
        return self._next

    def keep_time(self, late):
        """tick(), by a thread that waits for this job, when nobody has called it for `late` seconds though it was
        due."""
        now = monotonic()
        if (self.deadline is not None and now > self.deadline + late
                or self._why is not None and now > self._since + GRACE + late):
            self.tick()

    def unwanted(self):
        """Whether an interruption was requested; used before the code begins."""
        return self._why is not None

    def _fire(self):
        self._firing = True        # _disarm waits for this to end
        try:
            if self._armed:
                _raise_in(self._thread.ident, self._why)
        finally:
            self._firing = False

    def _give_up(self):
        if not self._take():
            return
        # it has not come to a core, or to Python's lock, since; when it does it is not wanted any more
        if not self._entered:
            self.visit.take()
            self.error = self._never_began()
            self._finish(self._why.outcome)
            return
        frame = frames.innermost_of(self._thread.ident)
        self.error = "".join(rendering.stack(frame, self.source))
        frame = None
        self.error += ("memgauge: the code is blocked outside Python, or ignores interruptions; it goes on in its "
                       "thread, and what it prints from now on goes to the trainer's output\n")
        self._finish(GOES_ON)

    def _take(self):
        try:
            return self._claim.pop()
        except IndexError:
            return False

    def _finish(self, outcome):
        self.ended = perf_counter_ns()
        streams.leave(self.sink)
        self.outcome = outcome
        try:
            # while the main thread still stands: it would take Python's lock, and the client would wait
            self.finished(self)
        finally:
            self.visit.leave()

    # ------------------------------------------------------------ the eval's own thread

    def _work(self):
        outcome = EXCEPTION
        try:
            threadsetup.user_signals()
            outcome = self._at_its_moment()
        except BaseException as error:   # an interruption just between two shields, or no memory left
            self.error = self.error or "memgauge: %r\n" % (error,)
            outcome = getattr(error, "outcome", EXCEPTION)
        self._disarm()
        if self._forked():
            return
        if self._take():
            self._finish(outcome)

    def _forked(self):
        """In a child that the code forked: this thread is all of it, so it ends with the code."""
        import os
        if os.getpid() == self._pid:
            return False
        try:
            sys.stdout.flush()
        finally:
            os._exit(0)

    def _at_its_moment(self):
        threadsetup.threading_module()
        error = None if self.own else _compile_error(self.source)
        # nothing has to be waited for; but text from an indented place has another try
        if isinstance(error, SyntaxError):
            error = _compile_error(self._dedented())
        try:
            if error is not None:
                return self._failed(error)
        finally:
            error = None
        if not self.visit.enter():
            self.error = self._never_began()
            return self._why.outcome
        self._entered = True
        if self.unwanted():     # the moment came together with the interruption, which found nothing armed
            return self._why.outcome
        gil.calm()
        gil.lax()
        self.began = perf_counter_ns()
        threadsetup.same_device(self.visit.stop)
        streams.enter(self.sink)
        outcome = self._evaluate()
        if self.visit.place == moment.IDLE and not self.own:
            self.sink.write(streams.STDERR, "memgauge: the main thread waits in %s: the code ran beside it\n"
                            % self.visit.text)
        return outcome

    def _never_began(self):
        """Says where the thread is that could not be stopped in time."""
        frame = frames.innermost_of(mainthread.ident())
        text = "".join(rendering.stack(frame, self.source))
        reason = self.visit.reason
        if self.visit.where == moment.STEP:
            reason = "no step has ended"
        elif not reason:
            reason = "it is in C code that was called from the last line above" if text else "it has ended"
        frame = None
        return ("%smemgauge: the code did not begin: the main thread came to no place where it could be stopped for it:"
                " %s\n" % (text, reason))

    def _evaluate(self):
        program, value, error = None, None, None
        try:
            program, error = self._shielded(self._compile)
            if error is None:
                value, error = self._shielded(program.run)
                self._write_back(program)
            if error is None and value is not None:
                self.value, error = self._shielded(rendering.render, value)
            if error is not None:
                return self._failed(error)
            return FINE if self._why is None else self._why.outcome
        finally:
            value = None
            if program is not None:
                program.close()
            if error is not None:
                rendering.let_go(error)
            error = None

    def _compile(self):
        self.source = self._dedented()
        return scope.Program(self.source, sys.modules["__main__"].__dict__)

    def _dedented(self):
        source = self.source
        if source.lstrip("\r\n")[:1] in (" ", "\t"):   # pasted from an indented place
            from textwrap import dedent
            source = dedent(source)
        return source

    def _write_back(self, program):
        for note in program.write_back():
            self.sink.write(streams.STDERR, "memgauge: %s\n" % note)

    def _failed(self, error):
        outcome = error.outcome if isinstance(error, Interruption) else EXCEPTION
        text, failure = self._shielded(rendering.traceback, error, self.source)
        if failure is not None:   # its __str__ hangs or worse
            text = "%s (its traceback can't be shown: %s)\n" % (type(error).__name__, type(failure).__name__)
            rendering.let_go(failure)
        self.error = text
        return outcome if self._why is None else self._why.outcome

    def _shielded(self, function, *arguments):
        """(result, exception): the user's code runs in here and nowhere else."""
        result = error = None
        try:
            try:
                self._armed = True
                result = function(*arguments)
                self._armed = False
            except BaseException as e:
                self._armed = False
                error = e
        except Interruption as e:   # a second one, while the first was being caught
            error = e
        self._disarm()
        return result, error

    def _disarm(self):
        """After this returns, no interruption reaches this thread, and none is pending in the interpreter.

        One that was under way can't be taken back: up to CPython 3.12 PyThreadState_SetAsyncExc(…, NULL) leaves
        eval_breaker set for good, so that every jump of the program goes the slow way, and under sys.settrace never
        arrives (Python/ceval.c, eval_frame_handle_pending). So one more is raised, here, and caught."""
        caught = self._why is None
        while True:
            try:
                self._armed = False
                while self._firing:
                    sleep(0.0005)
                if caught or not _raise_in(_thread.get_ident(), self._why):
                    return
                _jump()      # a weak reference's callback may swallow it: once more
            except Interruption:
                caught = True


def _jump():
    """A call, since not every version has a loop's own jump inside of the try that is around the loop."""
    for _ in range(1000):
        pass


def after_fork():
    """In a forked child."""
    gil.after_fork()
    streams.after_fork()
    moment.after_fork()


def _compile_error(source):
    """Why a source can't be compiled; None if it can. Nothing of the user's runs, and an interruption would wait for
    the end of compile() anyway, or be printed to the program's output by a weak reference's callback that the garbage
    collector calls there."""
    try:
        compile(source, scope.FILENAME, "exec", 0, True)
    except BaseException as error:      # SyntaxError; of odd sources ValueError, RecursionError, MemoryError
        return error


# Where no interruption comes: an exception between importlib's _imp.acquire_lock() and the try below it leaves the lock
# of all imports with a thread that ends, and the program's next import waits for ever (Lib/importlib/_bootstrap.py,
# _get_module_lock).
_IMPORTLIB = frozenset(["<frozen importlib._bootstrap>", "<frozen importlib._bootstrap_external>"])


def _raise_in(ident, kind):
    """Has an exception raised in a thread at its next jump, unless it is inside importlib. Returns False if that can't
    be done now."""
    try:
        import ctypes
    except ImportError:   # a Python without it: code can't be interrupted, and is given up after the grace
        return False
    # one call of C from the look to the exception, so that the thread does not go on between them
    files = map(attrgetter("f_code.co_filename"), map(itemgetter(ident), starmap(sys._current_frames, ((),))))
    arguments = ctypes.c_ulong(ident), ctypes.py_object(kind)
    calls = map(itemgetter(1), zip(filterfalse(_IMPORTLIB.__contains__, files), repeat(arguments)))
    try:
        return frames.at_once(list, starmap(ctypes.pythonapi.PyThreadState_SetAsyncExc, calls)) == [1]
    except KeyError:      # it has ended
        return False
