"""Decides when the code of an eval may begin: while the training thread is stopped where no operation of PyTorch is
half done.

PyTorch's C++ works on tensors without the GIL. Another thread that changes them meanwhile (`p.grad = None` is enough)
crashes the program. So either the main thread is stopped between two of its bytecodes, by a pending call of CPython, or
the training thread at the end of a step, by the observer's hook. Meanwhile the code runs on its own thread. So what
the code does to its thread (an interruption, gradient mode, waiting for a lock) doesn't affect the trainer's thread,
which can be released at any time. docs/eval.md

A main thread that waits for something outside of PyTorch runs no bytecode, so it can't be stopped. Then the code begins
beside it, and the main thread is stopped if its wait ends before the code does.
"""
import _thread
import os
import sys
from time import monotonic

from .. import frames, mainthread, persistent, state, torchhook
from . import hindrance
from .idle import Idle
from .stop import ASKED, IDLE, MAIN, STEP, Stop, ours, tell_error

PATIENCE = 0.015    # s for a better place than the middle of a forward pass; C++ that runs longer is waited for anyway
FIRST, LOOK = 0.001, 0.01   # s between two attempts to stop the main thread, at first and later
DEEP = 60           # calls that must be left below the recursion limit for our pending call

_waiting = []       # visits that have not begun
_gates = []         # visits that began beside the main thread: it is stopped at its next bytecode
_armed = False      # a pending call is registered with CPython and has not run yet


class Visit:
    """One job's request to run its code, made by the job's thread."""

    def __init__(self, job, where):
        self.job, self.where = job, where
        self.claim = [True]          # whoever pops it decides where the code begins
        self.go = _thread.allocate_lock()
        self.go.acquire()
        self.asked = monotonic()
        self.over = False
        self.stop = None             # the Stop that waits for it
        self.place, self.text = None, ""   # where it began; for IDLE, what the main thread waits in
        self.reason = ""             # why it has not begun
        self.wants_step = where == STEP
        self.ident = 0
        # a pending call may come in a forked child before the child has forgotten its parent's visits
        self.pid = os.getpid()

    def enter(self):
        """Waits until the code may begin; False if the job was interrupted before."""
        self.ident = _thread.get_ident()
        state.evals.add(self.ident)
        if self.where == ASKED:
            self.place = ASKED
            return True
        _waiting.append(self)
        try:
            return self._wait()
        finally:
            _waiting.remove(self)

    def _wait(self):
        idle, pause = Idle(), FIRST
        while True:
            if self._join():
                return True
            if self.where == MAIN:
                _arm()
            if self.wants_step:
                _ask_step()
            if self.go.acquire(True, pause):
                return True
            if self.over or self.job.unwanted() and self.take():
                return False
            pause = min(1.5 * pause, LOOK)
            if self.where == MAIN and idle.look(self, _armed) and self._begin_beside(idle):
                return True

    def take(self):
        """Claims the decision for this thread. False if the code is about to begin, or never will."""
        try:
            return self.claim.pop()
        except IndexError:
            return False

    def let_go(self):
        """Lets the code begin. The stopped thread calls this, perhaps twice, since it may have been interrupted just
        after the first call."""
        try:
            self.go.release()
        except RuntimeError:
            pass

    def give_back(self):
        """Returns the claim, if the thread that had it could not begin the code."""
        if self.place is None:
            self.claim[:] = [True]

    def _begin_beside(self, idle):
        _gates.append(self)          # first: the main thread may run a bytecode at any time
        if self.take():
            self.place, self.text = IDLE, idle.text
            return True
        _gates.remove(self)
        return False

    def _join(self):
        """Uses a thread that is already stopped for another eval."""
        stop = mainthread.stopped
        if stop is None or not stop.open or not self._fits(stop) or not self.take():
            return False
        self.stop, self.place = stop, stop.place
        stop.visits.append(self)
        if stop.open:
            return True
        stop.visits.remove(self)     # it was just ending
        self.stop, self.place, self.claim[:] = None, None, [True]
        return False

    def _fits(self, stop):
        return stop.place == STEP if self.where == STEP else stop.ident == mainthread.ident()

    def leave(self):
        """The code has ended or was given up; from any thread, more than once."""
        self.over = True
        state.evals.discard(self.ident)
        if self in _gates:
            _gates.remove(self)
        for stop in (self.stop, mainthread.stopped):
            if stop is not None:
                stop.wake()


# ---------------------------------------------------------------- the main thread, between two bytecodes

def _make_stopper():
    """An object whose truth value CPython evaluates on the main thread: a C function with the signature of a pending
    call, which passes exceptions on (Objects/object.c, PyObject_IsTrue). It lives as long as the process, the box can
    be emptied."""
    box = []

    def __bool__(self, box=box):
        for call in box:
            call()
        return False
    return box, type("Stopper", (), {"__bool__": persistent.bare(__bool__), "__slots__": ()})()


_stopper = None


def _arm():
    """Registers a pending call, unless one is registered already."""
    global _stopper, _armed
    if _armed or _too_deep():
        return
    try:
        import ctypes
    except ImportError:     # a Python without it: a step's end, or an idle main thread, will do
        return
    if _stopper is None:
        _stopper = persistent.get("stopper.1", _make_stopper)
    box, stopper = _stopper
    box[:] = [_came_by]
    _armed = True
    api = ctypes.pythonapi
    if api.Py_AddPendingCall(api.PyObject_IsTrue, ctypes.py_object(stopper)) != 0:
        _armed = False      # too many wait already (Python/ceval_gil.c, NPENDINGCALLS): next time


def _too_deep():
    """Whether the main thread is so deep in calls that ours might hit the limit."""
    most = max(0, sys.getrecursionlimit() - DEEP)
    return len(frames.stack(frames.innermost_of(mainthread.ident()), most + 1)) > most


def _came_by():
    """The pending call. It raises only what a signal handler of the program has raised.

    Where no Python frame is below it, the interpreter is about to end, and runs what is still pending
    (Python/pylifecycle.c, _Py_FinishPendingCalls): no code may begin then."""
    global _armed
    _armed = False
    interrupted = sys._getframe(1).f_back
    if interrupted is not None and mainthread.stopped is None:
        _stand_still(MAIN, _admit, interrupted)


def _stand_still(place, admit, *arguments):
    """Stops this thread for the visits that `admit` puts into a list. It raises only what a signal handler of the
    program has raised."""
    visits, stop = [], None
    try:
        admit(visits, *arguments)
        if visits:
            stop = Stop(place, visits)
            stop.run()
    except BaseException as error:
        if stop is not None:
            stop.abandon()
        for visit in visits:
            visit.give_back()
        if not ours(error):
            raise
        tell_error()


def _admit(visits, frame):
    here = os.getpid()
    visits.extend(v for v in _gates if not v.claim and not v.over and v.pid == here)
    waiting = [v for v in _waiting if v.where == MAIN and v.claim and v.pid == here]
    if not waiting:
        return
    reason, hard = hindrance.of(frame)
    if not hard:
        other, some = hindrance.others()
        other = _task_on_this_thread() or other
        reason, hard = other or reason or some and "another thread may come to PyTorch", bool(other)
    now = monotonic()
    for visit in waiting:
        visit.reason = reason
        if hard:
            visit.wants_step = True
        elif not reason or now >= visit.asked + PATIENCE:
            _take_into(visits, visit)


def _take_into(visits, visit):
    """Listed first: an exception between the two would leave it taken, and never begun."""
    visits.append(visit)
    if not visit.take():
        visits.remove(visit)


def _task_on_this_thread():
    """The operation of PyTorch that is half done on the calling thread, if no frame shows it."""
    try:
        raw, cuda = getattr(torchhook.loaded("torch"), "_C", None), torchhook.cuda()
        task = getattr(raw, "_current_graph_task_id", None)     # 2.1 and newer
        if task is not None and task() != -1:
            return "it is in a backward pass"
        if cuda is not None and cuda.is_current_stream_capturing():
            return "it captures a CUDA graph"
    except (AttributeError, RuntimeError):   # another version of torch, or something else of that name
        pass
    return ""


# ---------------------------------------------------------------- the end of a step

def _ask_step():
    """Requests a stop at the end of the next step. The caller repeats it, since the trainer may be planning its next
    check just now and miss it."""
    observer = state.observer
    if observer is not None:
        observer.visit = step_ended
        observer.counter.plan(0, None, 1)


def step_ended():
    """Called by the observer on the training thread. It raises only what a signal handler of the program has raised."""
    if mainthread.stopped is None and _thread.get_ident() not in state.evals:    # the code of an eval makes a step
        _stand_still(STEP, _admit_all)


def _admit_all(visits):
    here = os.getpid()
    for visit in list(_waiting):
        if visit.pid == here and visit.claim:
            _take_into(visits, visit)


# ---------------------------------------------------------------- forks, detach

def after_fork():
    """In the child: forgets all visits, which belong to the parent."""
    global _armed
    mainthread.stopped, _armed = None, False
    del _waiting[:], _gates[:]
    state.evals.clear()


def retire():
    """Before a detach: a pending call that still comes finds nothing to do."""
    if _stopper is not None:
        del _stopper[0][:]
