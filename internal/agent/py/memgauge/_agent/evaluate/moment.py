"""Where the code of an eval may begin: while the thread that trains is stopped at a place where nothing of PyTorch is half done.

PyTorch's C++ works on tensors without Python's lock, and whoever changes them meanwhile from another thread (`p.grad = None` is
enough) ends the program. So the main thread is stopped between two of its bytecodes, by a pending call of CPython's, or the
thread that trains at the end of a step, by the observer's hook; and the code runs in its place, on a thread of its own. So what
the code does to its thread (an interruption, gradient mode, a lock that it waits for) is never done to the trainer's,
which can be let go at any time. docs/eval.md

A main thread that waits for something outside of PyTorch comes by nowhere. Then the code begins beside it, and the main
thread is stopped when its wait ends before the code does.
"""
import _thread
import os
import sys
from time import clock_gettime_ns, monotonic, process_time_ns

from .. import persistent
from . import scope

MAIN, STEP, IDLE, ASKED = range(4)   # places; a request's is MAIN, STEP or ASKED

PATIENCE = 0.015    # s for a better place than the middle of a forward pass; C++ that runs longer is waited for anyway
FIRST, LOOK = 0.001, 0.01   # s between two tries to stop the main thread, at first and later
# s without CPU time after which the main thread is taken for waiting: in a system call of its own kind; in a lock of Python's, which
# looks like a wait for the GIL, in turns of 5 ms; in what may be a part of PyTorch's.
STILL_CALL, STILL_LOCK, STILL = 0.001, 0.012, 0.05
QUIET = 0.2         # of a core: what the process's other threads may use where it is not known what the main thread waits for
TURN = 0.25         # s between two looks of a stopped thread at what it waits for
LATE = 1.0          # s after which a stopped thread keeps the code's time itself: our control thread is gone, or in a fork
DEEP = 60           # calls that must be left below the recursion limit for our pending call

_HERE = __file__.rpartition("/_agent/")[0] + "/"
_EVALS = _HERE + "_agent/evaluate/job.py"      # a thread with it on its stack runs an eval

# Files of torch's that lie below the whole of a training (launchers, decorators), or that only wait for data.
_HARMLESS = ("multiprocessing/", "distributed/elastic/", "distributed/launcher/", "distributed/run.py", "utils/_contextlib.py",
             "utils/data/", "autograd/grad_mode.py", "_inductor/compile_worker/", "_inductor/async_compile.py")
_ENGINE = "_engine_run_backward"     # torch/autograd/graph.py since 2.1; before, the two functions of torch/autograd/__init__.py
_BEFORE_ENGINE = ("autograd/__init__.py", "overrides.py")   # what those call before C++
# Linux system calls that wait for input, time, a child or a file's lock: read, poll, select, nanosleep, accept, recv…, wait…, … Not
# futex, in which PyTorch, OpenMP and CUDA wait too, and not what allocating memory may wait in.
_WAITS = {
    "x86_64": b"0 7 17 19 23 34 35 42 43 45 47 61 65 70 72 73 128 130 220 230 232 247 270 271 281 288 295 299 441",
    "aarch64": b"22 25 32 63 65 67 69 72 73 95 101 115 133 137 188 192 193 202 203 207 212 242 243 260 441",
}.get(os.uname().machine, b"").split()

_waiting = []       # visits that have not begun
_gates = []         # visits that began beside the main thread: it is stopped when it comes by
_idents = set()     # of the threads that run evals, or wait to
_stop = None        # the Stop that goes on
_armed = False      # CPython was asked for a pending call that has not come yet


class Visit:
    """One job's wish to run its code, made by the job's thread."""

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
        self.pid = os.getpid()       # a pending call may come in a forked child before the child has forgotten its parent's visits

    def enter(self):
        """Waits for the moment; False when the job was interrupted before."""
        self.ident = _thread.get_ident()
        _idents.add(self.ident)
        if self.where == ASKED:
            self.place = ASKED
            return True
        _waiting.append(self)
        try:
            return self._wait()
        finally:
            _waiting.remove(self)

    def _wait(self):
        idle, pause = _Idle(), FIRST
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
            if self.where == MAIN and idle.look(self) and self._begin_beside(idle):
                return True

    def take(self):
        """Whether it is this thread that decides; else the code is about to begin, or never will."""
        try:
            return self.claim.pop()
        except IndexError:
            return False

    def _begin_beside(self, idle):
        _gates.append(self)          # first: the main thread may come by at any time
        if self.take():
            self.place, self.text = IDLE, idle.text
            return True
        _gates.remove(self)
        return False

    def _join(self):
        """A thread that stands still for another eval serves this one as well."""
        stop = _stop
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
        return stop.place == STEP if self.where == STEP else stop.ident == main_ident()

    def leave(self):
        """The code has ended or was given up; from any thread, more than once."""
        self.over = True
        _idents.discard(self.ident)
        if self in _gates:
            _gates.remove(self)
        for stop in (self.stop, _stop):
            if stop is not None:
                stop.wake()


class Stop:
    """A thread that stands still for visits, on that thread."""

    def __init__(self, place, visits):
        from collections import deque
        self.place, self.visits, self.openers = place, list(visits), list(visits)
        self.ident, self.pid = _thread.get_ident(), os.getpid()
        self.open = [True]           # others may join
        self.calls = deque()         # what is to be called on this thread
        self.device = _device()
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def wake(self):
        try:
            self._wake.release()
        except RuntimeError:         # it is awake
            pass

    def run(self):
        """Returns when the code of all has ended. Raises what a signal handler of the program's has raised meanwhile."""
        global _stop
        raised = None
        _stop = self
        scope.stopped[:] = [self.ident]
        for visit in self.visits:
            if visit.place is None:
                visit.stop, visit.place = self, self.place
                visit.go.release()
        while True:
            try:
                if self._ended():
                    break
                self._turn()
            except BaseException as error:
                if _ours(error):
                    _tell_error()
                    break
                for visit in list(self.visits):    # Ctrl-C: the trainer's wish comes first
                    visit.job.interrupt()
                    visit.job.look()
                raised = raised or error
                error = None
        _stop = None
        del scope.stopped[:]
        if raised is not None:
            try:
                raise raised
            finally:
                raised = None

    def _ended(self):
        if os.getpid() != self.pid:  # a signal handler has forked: nobody is here to wait for
            return True
        if self.open and all(v.over for v in self.openers):
            del self.open[:]         # whoever joined is waited for, but those who ask now wait for the next stop
        return not self.open and all(v.over for v in list(self.visits))

    def _turn(self):
        self._wake.acquire(True, TURN)
        while self.calls:
            try:
                function, done = self.calls.popleft().pop()
            except IndexError:       # who asked waits no longer
                continue
            try:
                function()
            finally:
                done.release()
        for visit in list(self.visits):
            if not visit.over:
                visit.job.keep_time(LATE)

    def call(self, function, wait):
        """Has the stopped thread call the function; False if it did not within `wait` seconds."""
        done = _thread.allocate_lock()
        done.acquire()
        call = [(function, done)]
        self.calls.append(call)
        self.wake()
        if not wait or done.acquire(True, wait):
            return True
        try:
            call.pop()
            return False
        except IndexError:           # it has just begun
            return done.acquire(True, wait)


# ---------------------------------------------------------------- the main thread, between two bytecodes

def _make_stopper():
    """An object that CPython asks for its truth, on the main thread: a C function with the signature of a pending call, which
    passes exceptions on (Objects/object.c, PyObject_IsTrue). It lives as long as the process, the box can be emptied."""
    box = []

    def __bool__(self, box=box):
        for call in box:
            call()
        return False
    return box, type("Stopper", (), {"__bool__": persistent.bare(__bool__), "__slots__": ()})()


_stopper = None


def _arm():
    """Asks for a pending call, unless one is under way."""
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
    frame, left = sys._current_frames().get(main_ident()), sys.getrecursionlimit() - DEEP
    while frame is not None and left > 0:
        frame, left = frame.f_back, left - 1
    return frame is not None


def _came_by():
    """The pending call. Only what a signal handler of the program's raises leaves it."""
    global _armed
    _armed = False
    try:
        visits = _admitted(sys._getframe(2))
        if visits:
            Stop(MAIN, visits).run()
    except BaseException as error:
        if not _ours(error):
            raise
        _tell_error()


def _admitted(frame):
    here = os.getpid()
    visits = [v for v in _gates if not v.claim and not v.over and v.pid == here]
    waiting = [v for v in _waiting if v.where == MAIN and v.claim and v.pid == here]
    if not waiting or _stop is not None:
        return visits if _stop is None else ()
    reason, hard = hindrance(frame)
    if not hard:
        other = _task_on_this_thread() or others_in_torch()
        reason, hard = other or reason, bool(other)
    now = monotonic()
    for visit in waiting:
        visit.reason = reason
        if hard:
            visit.wants_step = True
        elif not reason or now >= visit.asked + PATIENCE:
            if visit.take():
                visits.append(visit)
    return visits


def _task_on_this_thread():
    """What PyTorch has half done on the thread that asks, as far as no frame tells it."""
    torch = sys.modules.get("torch")
    raw = getattr(torch, "_C", None)
    try:
        task = getattr(raw, "_current_graph_task_id", None)     # 2.1 and newer
        if task is not None and task() != -1:
            return "it is in a backward pass"
        cuda = getattr(torch, "cuda", None)
        if cuda is not None and cuda.is_initialized() and cuda.is_current_stream_capturing():
            return "it captures a CUDA graph"
    except (AttributeError, RuntimeError):   # torch is just being imported, or is none
        pass
    return ""


def _device():
    """CUDA's current one, of this thread; None where there is no choice."""
    try:
        cuda = sys.modules["torch"].cuda
        return cuda.current_device() if cuda.is_initialized() and cuda.device_count() > 1 else None
    except Exception:
        return None


# ---------------------------------------------------------------- the end of a step

def _observer():
    return getattr(sys.modules.get(__package__.rpartition(".")[0] + ".observe.observer"), "_observer", None)


def _ask_step():
    """To be repeated until it was heard: the trainer may be planning its next look just now."""
    observer = _observer()
    if observer is not None:
        observer.visit = step_ended
        observer.counter.plan(0, None, 1)


def step_ended():
    """On the thread that trains, by the observer. Only what a signal handler of the program's raises leaves it."""
    try:
        if _stop is not None or _thread.get_ident() in _idents:    # the code of an eval makes a step
            return
        visits = [v for v in list(_waiting) if v.pid == os.getpid() and v.claim and v.take()]
        if visits:
            Stop(STEP, visits).run()
    except BaseException as error:
        if not _ours(error):
            raise
        _tell_error()


# ---------------------------------------------------------------- looking at stacks

def main_ident():
    threading = sys.modules.get("threading")
    return threading.main_thread().ident if threading is not None else None


def _torch_home():
    home = getattr(sys.modules.get("torch"), "__file__", None)
    return home.rpartition("/")[0] + "/" if isinstance(home, str) else "\0"


def hindrance(frame):
    """(why the thread should not be stopped here, whether it must not). Frames of Python tell when C++ has called back: a
    function of torch's that enters the autograd engine, and is not the innermost, has the engine above it."""
    home = _torch_home()
    inner, users, soft = None, False, ""
    if frame.f_code.co_name == _ENGINE and frame.f_code.co_filename == home + "autograd/graph.py":
        return "", False             # where the engine has just returned to
    if scope._is_ours_or_python(frame.f_code.co_filename):
        soft = "it is in Python's own %s" % place_of(frame)
    while frame is not None:
        code = frame.f_code
        name = code.co_filename
        if name.startswith(home):
            rest = name[len(home):]
            if inner is not None and _entered_engine(rest, code.co_name, inner, home):
                return "it is in a backward pass", True
            if not users and rest.startswith("optim/"):
                return "it is in an optimizer's step", True
            if not rest.startswith(_HARMLESS):
                soft = "PyTorch is on its stack"
        elif not scope._is_ours_or_python(name):
            users = True
        if code.co_name == "__del__":
            soft = "it is in a destructor"
        inner, frame = frame, frame.f_back
    return soft, False


def _entered_engine(rest, function, inner, home):
    if function == _ENGINE and rest == "autograd/graph.py":
        return True
    if rest != "autograd/__init__.py" or function not in ("backward", "grad"):
        return False
    name = inner.f_code.co_filename
    if not name.startswith(home):
        return True
    name = name[len(home):]
    return name not in _BEFORE_ENGINE and not (name == "autograd/graph.py" and inner.f_code.co_name == _ENGINE)


def others_in_torch():
    """A text about a thread, other than the main one and ours, that is in PyTorch or makes the steps; or ""."""
    home = _torch_home()
    if home == "\0":
        return ""
    main, observer = main_ident(), _observer()
    trains = getattr(observer, "trains_on", None)
    for ident, frame in sys._current_frames().items():
        if ident == main or ident == _thread.get_ident():
            continue
        if ident == trains:
            return "another thread trains, at %s" % place_of(frame)
        top, inside = frame, False
        while frame is not None:
            name = frame.f_code.co_filename
            if name == _EVALS:
                inside = False
                break
            inside = inside or name.startswith(home) and not name[len(home):].startswith(_HARMLESS)
            frame = frame.f_back
        if inside:
            return "another thread is in PyTorch, at %s" % place_of(top)
    return ""


def place_of(frame):
    return "%s() (%s:%d)" % (frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0)


class _Idle:
    """Whether the main thread waits for something that is none of PyTorch's: it used no CPU time between two looks, its
    innermost frame is not PyTorch's, and neither is another thread."""

    def __init__(self):
        self.cpu, self.since, self.all, self.text = None, 0.0, 0, ""
        self.clock = ~os.getpid() << 3 | 6    # of the thread with this number (Linux, posix-timers.h, make_thread_cpuclock)

    def look(self, visit):
        try:
            return self._look(visit)
        except OSError:      # the main thread has ended and left others behind, or there is no /proc
            return False

    def _look(self, visit):
        stop = _stop
        if stop is not None and stop.ident == main_ident():
            visit.reason = "it stands still for another eval"
            return False
        cpu, now = clock_gettime_ns(self.clock), monotonic()
        if cpu != self.cpu:
            self.cpu, self.since, self.all = cpu, now, process_time_ns()
            if _armed:           # and yet it comes to no bytecode: whatever was the reason before, it is in C code
                visit.reason = ""
            return False
        if now < self.since + STILL_CALL or not self._sleeps():
            return False
        frame = sys._current_frames().get(main_ident())
        if frame is None:
            return False
        call = self._call()
        if call in (b"running", b"-1"):    # -1: it waits for a page of memory
            return False
        if call not in _WAITS:
            least = STILL_LOCK if scope._is_ours_or_python(frame.f_code.co_filename) else STILL
            if now < self.since + least:
                return False
        return self._harmless(visit, frame, call, now)

    def _harmless(self, visit, frame, call, now):
        home, name = _torch_home(), frame.f_code.co_filename
        self.text = place_of(frame)
        reason, hard = hindrance(frame)
        if hard:
            visit.wants_step = True
        elif name.startswith(home) and not name[len(home):].startswith(_HARMLESS):
            reason, hard = "it waits in PyTorch", True
        else:
            reason = others_in_torch()
            hard = bool(reason)
            visit.wants_step = visit.wants_step or hard
            if not hard and home != "\0" and call not in _WAITS and not scope._is_ours_or_python(name) and not self._quiet(now):
                reason, hard = "it waits in C code that may be PyTorch's", True
        visit.reason = reason
        return not hard

    def _sleeps(self):
        """Also a thread that only has to wait for a core uses no CPU time."""
        with open("/proc/self/task/%d/stat" % os.getpid(), "rb", 0) as f:
            return f.read(4096).rpartition(b")")[2].split(None, 1)[0] in (b"S", b"D")

    def _call(self):
        """The number of the system call that it waits in, b"" where the kernel doesn't say. Nothing else tells which C function was
        called by the innermost function."""
        try:
            with open("/proc/self/task/%d/syscall" % os.getpid(), "rb", 0) as f:
                return f.read(32).split(None, 1)[0]
        except (OSError, IndexError):
            return b""

    def _quiet(self, now):
        """Whether nothing else goes on in the process."""
        return process_time_ns() - self.all < QUIET * 1e9 * (now - self.since)


def _ours(error):
    """Whether it was raised by our own code and not by a signal handler that runs on this thread."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or trace.tb_frame.f_code.co_filename.startswith(_HERE) and not _interrupt(error)


def _interrupt(error):
    """Python's own handler of SIGINT is a C function: it has no frame."""
    return isinstance(error, KeyboardInterrupt)


def _tell_error():
    process = sys.modules.get(__package__.rpartition(".")[0] + ".life")
    if process is not None:
        process.error("eval")


# ---------------------------------------------------------------- forks, detach

def after_fork():
    """In the child: whatever waits, waits in the parent."""
    global _stop, _armed
    _stop, _armed = None, False
    del _waiting[:], _gates[:], scope.stopped[:]
    _idents.clear()


def retire():
    """Before a detach: a pending call that still comes finds nothing to do."""
    if _stopper is not None:
        del _stopper[0][:]
