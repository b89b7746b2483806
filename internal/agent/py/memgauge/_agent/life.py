"""The agent's life in a process: start, attach, forks, exec, exit, detach.

start() runs in every observed Python, most of which never train, so it opens nothing and imports nothing that Python
has not loaded: it registers hooks and starts one thread. That thread sleeps on a lock for GRACE seconds, then opens the
small ring and the control socket, then blocks in poll for ever. attach() is for a program that runs already: everything
is opened at once, on the thread that was brought in for it.

At os.fork no thread of ours exists: the child would inherit whatever lock it held, and CPython 3.12+ warns about a
fork with threads. So the thread is ended before a fork and started again after it. All signals are blocked in it, since
a program that blocks signals in its only thread, to wait for them, relies on there being no other.
"""
import _signal
import _thread
import atexit
import os
import sys
from time import monotonic, monotonic_ns, sleep

from . import forked, persistent, ranks, unload
from .pipe import Pipe

GRACE = 0.2          # s; a process that ends before leaves no file
JOIN = 0.05          # s that a fork or an exit waits for the control thread: it may be answering a client
GONE = 0.01          # s that a fork waits for the kernel to take the ended thread off its list; it takes some 100 µs
OPENING = 0.05       # s that a thread waits for another one that is just opening the ring; it takes about 1 ms
MAX_ERRORS = 20      # a process: a fault that repeats at every step must not fill the ring
MAX_EARLY = 16       # events before there is a ring
UNWANTED = 60.0      # s that an agent without a ring waits for one: who attached may have been killed
MAX_FAILURES = 3     # rings that could not be opened: a full disk may have room again when torch is imported

_FAULTS = (_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT)  # faulthandler's own


class Settings:
    """What the user may change while the process runs."""

    __slots__ = ("budget", "trace")

    def __init__(self):
        self.budget, self.trace = 0.01, "auto"

    def set(self, key, text):
        """Raises ValueError, with a text for the user, for what it does not know."""
        if key == "budget":
            budget = float(text)
            if not 0 < budget <= 1:
                raise ValueError("budget %s: not a fraction between 0 and 1" % text)
            self.budget = budget
        elif key == "trace":
            if text not in ("auto", "all", "off"):
                raise ValueError("trace %s: not one of auto, all, off" % text)
            self.trace = text
        else:
            raise ValueError("unknown setting: " + key)


class _State:
    """Of this process; a forked child gets a new one."""

    __slots__ = ("runtime", "pid", "parent", "deadline", "ring", "failures", "opening", "busy", "control", "thread",
                 "pipe", "early", "errors", "rank", "world", "over", "birth", "door", "wiped", "modules", "ends", "lost")

    def __init__(self, runtime, parent=0):
        self.runtime, self.parent, self.pid = runtime, parent, os.getpid()
        self.birth = "fork" if parent else "start"     # the ring's first event
        self.door = None        # where the runtime directory can't be seen: what came in through it, see door.py
        self.wiped, self.modules = [], ()   # namespaces of our modules, for the last thing that the thread does
        self.ends = []          # the socket whose end tells that all this is over, and what fstat says of it
        self.deadline = monotonic() + GRACE
        self.ring = self.control = self.thread = self.pipe = None
        self.failures = self.errors = 0
        self.opening, self.busy = _thread.RLock(), False
        self.early, self.over, self.lost = [], False, False
        self.rank, self.world = ranks.from_environment()


settings = Settings()
_state = None
_box = None      # what the fork and exit hooks call; emptied by detach, since hooks can't be unregistered
recent_threads = []  # the last 32 control threads: the kernel may list one that has ended for some more forks
_sigmask = None  # the signals blocked in the thread that started us


# Start

def start(runtime=None):
    """Called by sitecustomize in the main thread."""
    global _state
    runtime = runtime or os.environ.get("MEMGAUGE_RUNTIME")
    if _state is not None or not runtime or not _main_interpreter() or not _ours(runtime):
        return
    for key in ("budget", "trace"):
        text = os.environ.get("MEMGAUGE_" + key.upper())
        if text:
            try:
                settings.set(key, text)
            except ValueError:
                pass    # `memgauge run` has checked it; somebody else's mistake keeps the default
    _state = _State(runtime)
    _hook_in()
    from . import torchhook
    torchhook.install()
    if getattr(sys, "argv", ())[1:2] == ["--multiprocessing-fork"]:
        from . import workers
        workers.spawned(_hook(_box, 3))
    _start_thread(_state)


def _ours(directory):
    """Another user's may be a trap (`sudo -E`), and he could not read our rings."""
    try:
        return os.stat(directory).st_uid == os.geteuid()
    except OSError:
        return False


def attach(request):
    """Begins in a program that runs, on whatever thread. Returns what the one who attaches needs to know, as text lines;
    raises when it could not begin, with everything as it was."""
    global _state, _sigmask
    if _state is not None and _state.ring is None and _state.door is not None and request["runtime"] is None:
        _state.door.identity = request["pid"], request["start"]     # who came before was killed before he gave a ring
        return "attached\t%s" % _state.door.address()
    if _state is not None:
        return "observed\t%s" % (_state.runtime or "")
    settings.set("budget", request["budget"])
    settings.set("trace", request["trace"])
    _state = s = _State(request["runtime"])
    s.birth = "attach"
    try:
        if s.runtime is None:
            from .control.door import Door
            s.door = Door(request["pid"], request["start"])
        elif ring(large="torch" in sys.modules) is None:
            raise OSError("no ring could be made in %s/rings" % s.runtime)
        s.pipe = Pipe()
        _open_control(s)
    except BaseException:
        _state = None
        for opened in (s.pipe, s.ring, s.door):
            if opened is not None:
                opened.close()
        raise
    _hook_in()
    from . import torchhook
    torchhook.install()
    _start_thread(s)
    _sigmask = _signals_of_main()
    return "attached\t%s" % (s.door.address() if s.door is not None else "")


def came_later():
    """Whether the program ran before we came."""
    return _state is not None and _state.birth == "attach"


def _signals_of_main():
    """The signals that the main thread blocks: the thread that attach() runs on blocks them all."""
    try:
        with open("/proc/self/task/%d/status" % os.getpid(), "rb", 0) as f:
            text = f.read(1 << 16)
        mask = int(text.partition(b"\nSigBlk:")[2].split(None, 1)[0], 16)
    except (OSError, ValueError, IndexError):
        return set()
    return {n for n in _signal.valid_signals() if mask >> (n - 1) & 1}


def _hook_in():
    global _box
    _box = persistent.get("hooks.1", _register)    # registered once in the life of a process
    _box[:] = _before_fork, _after_in_parent, _after_in_child, _at_exit


def _register():
    box = []
    os.register_at_fork(before=_hook(box, 0), after_in_parent=_hook(box, 1), after_in_child=_hook(box, 2))
    atexit.register(_hook(box, 3))
    return box


def _main_interpreter():
    """A subinterpreter can't end while a thread of its own lives, and must not fork. Before 3.12 a handler tells, which is set to what
    it is: only the main interpreter may (Modules/signalmodule.c, signal_signal). We are in the main thread."""
    if hasattr(_thread, "_is_main_interpreter"):
        return _thread._is_main_interpreter()
    try:
        known = next((n for n in (_signal.SIGURG, _signal.SIGWINCH, _signal.SIGCONT) if _signal.getsignal(n) == _signal.SIG_DFL), None)
        return known is None or _signal.signal(known, _signal.SIG_DFL) is not None
    except ValueError:
        return False


def _hook(box, index):
    """A function that the interpreter may keep for ever: it holds the box and nothing else, not even our globals."""
    def hook(box=box, index=index):
        if box:
            try:
                box[index]()
            except Exception:   # no descriptor left to read a module of ours with
                pass
    return persistent.bare(hook)


# The control thread

class _Thread:
    """One run of the control thread."""

    __slots__ = ("wake", "done", "stop", "again", "ident", "native")

    def __init__(self):
        self.wake, self.done = _thread.allocate_lock(), _thread.allocate_lock()
        self.wake.acquire()
        self.done.acquire()
        self.stop, self.again, self.ident, self.native = False, [], 0, 0

    def ended(self, timeout):
        if not self.done.acquire(True, timeout):
            return False
        self.done.release()
        return True


def _start_thread(s):
    """Starts it with its signals blocked from birth. Where no thread can be had, there is no control socket."""
    global _sigmask
    if s.over or (s.thread is not None and not s.thread.ended(0)):
        return
    s.thread = thread = _Thread()
    recent_threads[:] = recent_threads[-31:] + [thread]
    # SETMASK: the C library leaves its own two (32, 33) out, which may be blocked here: a thread that blocks the second has every
    # later setuid of the program wait for ever
    valid = _signal.valid_signals()
    first = _sigmask is None
    _sigmask = valid.intersection(_signal.pthread_sigmask(_signal.SIG_SETMASK, valid.difference(_FAULTS)))
    try:
        if first and sys.version_info < (3, 11):    # there a thread's end loads libgcc_s, or aborts: a descriptor may be lacking
            _thread.start_new_thread(int, ())
        thread.ident = _thread.start_new_thread(unload.outermost(), (_run, s, thread, s.wiped, s.ends))
    except RuntimeError:
        s.thread = None
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, _sigmask)


def _run(s, thread):
    try:
        thread.ident, thread.native = _thread.get_ident(), _thread.get_native_id()
        wait = s.deadline - monotonic()
        if wait > 0:
            thread.wake.acquire(True, wait)
        if not (thread.stop or s.over):
            _serve(s, thread)
    except BaseException:   # also SystemExit, which ends a thread without a word
        error("control thread")
    finally:
        thread.done.release()
        if thread.again:
            _start_again(s, thread)


def _serve(s, thread):
    """Blocks until the pipe says stop. Without a ring there is no control socket either."""
    if s.lost or s.door is None and ring() is None:
        return
    if s.pipe is None:
        s.pipe = Pipe()
    s.pipe.drain()
    if s.control is None:
        _open_control(s)
    if not thread.stop:     # it may have been set before the pipe was drained of the word that goes with it
        why = s.control.run(s.pipe)
        if why == "detach":
            unload.last_thing(s, s.control.last)
        s.lost = why == "lost"      # a daemon has closed every descriptor: the ring, which is mapped, goes on


def _open_control(s):
    from .control.server import Control
    path = None if s.door is not None else "%s/ctl/%d.%d.sock" % (s.runtime, s.pid, s.ring.start)
    opened = Control(path, _Requests(), s.door)
    opened.open()
    s.control = opened


class _Requests:
    """What the control socket asks of the process."""

    def hello(self):
        return agent_hash()

    def event(self, name, text, a, b):
        event(name, text, a, b)

    def detach(self):
        detach()

    def gone(self):
        return _state is None

    def ring(self, fd):
        adopt(fd)

    def tick(self):
        s = _state
        if s is not None and s.door is not None and s.ring is None:
            if monotonic() < s.deadline + UNWANTED:
                return s.deadline + UNWANTED
            detach()
            return monotonic()
        torchhook = sys.modules.get(__package__ + ".torchhook")
        return torchhook.tick() if torchhook is not None else None

    def settings(self, wanted):
        for key, text in wanted.items():
            configure(key, text)


def _close_control(s, close):
    control, s.control = s.control, None
    if control is not None:
        close(control)


def _stop_thread(s, timeout=JOIN):
    """Ends the control thread; says whether it has ended, also in the kernel's eyes."""
    thread = s.thread
    if thread is None:
        return True
    if thread.ident == _thread.get_ident():
        return False
    if s.pipe is not None and not s.pipe.intact():      # asked first: at its end the thread itself closes the pipe
        timeout = 0     # nothing wakes it until a client comes
    thread.stop = True
    try:
        thread.wake.release()
    except RuntimeError:    # it sleeps no longer
        pass
    if s.pipe is not None:
        s.pipe.wake()
    if not thread.ended(timeout):
        return False
    s.thread = None
    return _await_kernel(thread)


def _await_kernel(thread):
    """CPython 3.12+ counts threads by num_threads in /proc/self/stat, right after the fork and before the hook in the
    parent (Modules/posixmodule.c, warn_about_fork_with_threads). A thread that has run its last Python line is still
    there for some µs; the kernel takes it out of /proc/self/task and of the count at the same moment."""
    end = monotonic() + GONE
    path = "/proc/self/task/%d" % thread.native
    while thread.native and monotonic() < end:
        try:
            os.stat(path)
        except OSError:
            return True
        sleep(2e-5)     # a mere yield would take the GIL back before the thread, which needs it once more, wakes up
    return not thread.native


def _start_again(s, thread):
    try:
        thread.again.pop()
    except IndexError:      # the other side was quicker
        return
    _start_thread(s)


# Forks and exit

def _before_fork():
    ended = _stop_thread(_state) or forked.awaited_import(_state.thread) and _stop_thread(_state)
    if sys.version_info[:2] == (3, 13) or (not ended and sys.version_info >= (3, 12)):
        from . import forkwarning
        forkwarning.stand_by()
    if "multiprocessing.util" in sys.modules:
        from . import workers
        workers.expect(_hook(_box, 3))


def _after_in_parent():
    s = _state
    thread = s.thread
    if thread is None:
        _start_thread(s)
    elif thread.ident != _thread.get_ident():   # it was busy for too long: whoever sees the other's mark starts it
        thread.again[:] = 1,
        if thread.ended(0):
            _start_again(s, thread)


def _after_in_child():
    """Everything of the parent's is forgotten, without a word in its files, before anything of the user's runs."""
    global _state
    old = _state
    _state = s = _State(old.runtime, old.pid)
    s.over = old.over
    try:
        forked.forget_imports(old)
        if old.ring is not None:
            old.ring.close(None)
        _close_control(old, lambda control: control.close_in_child())
        if old.pipe is not None:
            old.pipe.close()
        _tell("evaluate.job", "after_fork")
        _tell("census.census", "after_fork")
        _tell("observe.observer", "after_fork")
    except Exception:
        error("fork")
    if s.runtime is None:
        _stay_out()
    else:
        _start_thread(s)


def _stay_out():
    """In a child of a process that can't see our files: nothing was handed to it, so it isn't observed."""
    global _state
    from . import torchhook
    torchhook.remove()
    _tell("observe.observer", "uninstall")
    del _box[:]
    _state = None


def _at_exit():
    s = _state
    s.over = True
    _stop_thread(s)
    try:
        if s.ring is not None and s.pid == os.getpid():
            _tell("observe.observer", "flush")
            if getattr(sys, "last_value", None) is not None:    # an error ends the program
                from .gauges import oom
                oom.at_exit()
            s.ring.event("exit")
            s.ring.close()
        _close_control(s, lambda control: control.close())
    except Exception:
        pass    # nobody is left to tell
    s.ring = s.control = None


def _tell(module, function):
    """Calls a function of a module of ours, if that is loaded at all."""
    loaded = sys.modules.get(__package__ + "." + module)
    if loaded is not None:
        getattr(loaded, function)()


# Ring and events

def ring(large=False):
    """The open ring; opens one, or the large one in place of the small, where that is possible. None: unobserved."""
    s = _state
    if s is None:
        return None
    current = s.ring
    if current is not None and (current.large or not large):
        return current
    if s.over or s.failures >= MAX_FAILURES or not s.opening.acquire(True, OPENING):
        return current
    try:
        if s.busy:      # a signal handler interrupted the opening in this very thread
            return s.ring
        s.busy = True
        if s.ring is None or large > s.ring.large:
            _open(s, large)
        return s.ring
    except Exception:
        s.failures += 1
        return s.ring
    finally:
        s.busy = False
        s.opening.release()


def _open(s, large):
    from .record import about
    from .record.ring import Ring
    old = s.ring
    # A large ring is never generation 0: that is how others tell a process with torch.
    new = Ring(s.runtime + "/rings", old.generation + 1 if old else int(large), bool(large), about.lines(s, agent_hash()))
    _begin(s, new, old)


def _begin(s, new, old):
    new.set_rank(s.rank, s.world)
    if old is None:
        new.event(s.birth, "what happened before is not known" if s.birth == "attach" else "", a=s.parent)
        from . import workers
        workers.watch(_hook(_box, 3))
    s.ring = new
    while s.early:
        new.event(*s.early.pop(0))
    if old is not None:
        old.close()


def adopt(fd):
    """A ring whose file was made by the one who attached, since we can't see his directory. Closes fd."""
    from .record import about
    from .record.ring import Ring
    s = _state
    new = Ring(fd, 1, True, about.lines(s, agent_hash()), s.door.identity)
    _begin(s, new, None)
    _tell("observe.observer", "settings_changed")   # it may have asked in vain before


def agent_hash():
    """Content hash of the agent: the name of the directory that it was unpacked into (HASH/lib/memgauge/_agent)."""
    return __file__.split("/")[-5]


def event(name, text="", a=0, b=0, c=0, d=0):
    """From any thread. Before there is a ring, the first few are kept for it, with their time."""
    s = _state
    if s is None:
        return
    if s.ring is not None:
        s.ring.event(name, text, a, b, c, d)
    elif len(s.early) < MAX_EARLY:
        s.early.append((name, text, a, b, c, d, monotonic_ns()))


def error(where):
    """Records the exception that is being handled; it must not reach the user's code."""
    s = _state
    if s is None or s.errors >= MAX_ERRORS:
        return
    s.errors += 1
    try:
        import traceback
        event("error", where + ": " + traceback.format_exc()[-1800:])   # the end says what; MAX_TEXT is 2000
    except Exception:
        pass


# Rank and settings

def rank():
    """(rank, world size), -1 while unknown."""
    s = _state
    return (-1, -1) if s is None else (s.rank, s.world)


def set_rank(number, world):
    """Told by who asked torch.distributed."""
    s = _state
    if s is None or (number, world) == (s.rank, s.world):
        return
    s.rank, s.world = number, world
    if s.ring is not None:
        s.ring.set_rank(number, world)
        s.ring.event("rank", a=number, b=world)


def configure(key, text):
    """A settings request; ValueError says what is wrong with it."""
    settings.set(key, text)
    _tell("observe.observer", "settings_changed")


def user_sigmask():
    """The signals that were blocked where we started: what a thread that runs the user's code should have."""
    return _sigmask or set()


# Detach

def detach():
    """Everything off. On the control thread it is a request: Control.run() answers it, closes the socket and ends."""
    global _state
    s = _state
    if s is None:
        return
    from . import torchhook
    torchhook.remove()
    try:
        _tell("workers", "forget")
        _tell("forkwarning", "leave")
        _tell("observe.observer", "uninstall")
        _tell("evaluate.scope", "retire")
    except Exception:
        error("detach")
    event("detach")
    s.over = True
    del _box[:]
    if s.ring is not None:
        from .record import _spec
        s.ring.close(_spec.STATE_DETACHED)
        s.ring = None
    _state = None
    if s.thread is None or s.thread.ident != _thread.get_ident():
        _stop_thread(s)
        _close_control(s, lambda control: control.close())
        if s.pipe is not None:
            s.pipe.close()
    s.modules = unload.forget_modules(s)
