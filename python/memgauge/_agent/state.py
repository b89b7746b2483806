"""What the parts of the agent have in common: the process as far as they know it, its settings, who observes what in
it, and the way of events and errors into the ring. It imports no module of ours, so each of them may import it.

life.py sets what stands here at start, at forks and at the end; the others read it."""
import _thread
import os
from _collections import deque     # collections itself may not be loaded yet
from time import monotonic, monotonic_ns

GRACE = 0.2          # s; a process that ends before leaves no file
MAX_ERRORS = 20      # a process: a fault that repeats at every step must not fill the ring
MAX_EARLY = 16       # events before there is a ring

PACKAGE = __file__.rpartition("/_agent/")[0] + "/"     # how the file names of all our code begin
# name of the package that ours lies in: memgauge, or memgauge_agent
ROOT = __package__.rpartition(".")[0]


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


class Process:
    """An observed process; a forked child gets a new one."""

    __slots__ = ("runtime", "pid", "parent", "deadline", "ring", "failures", "opening", "busy", "control", "thread",
                 "pipe", "serve", "early", "errors", "rank", "world", "over", "birth", "door", "wiped", "modules",
                 "ends", "lost", "exchange")

    def __init__(self, runtime, rank, parent=0):
        """`rank` is (rank, world size); `parent` the pid of the process that was forked."""
        self.runtime, self.parent, self.pid = runtime, parent, os.getpid()
        self.birth = "fork" if parent else "start"     # the ring's first event
        # where the runtime directory can't be seen: what came in through it, see control/door.py
        self.door = None
        self.wiped, self.modules = [], ()   # namespaces of our modules, for the last thing that the thread does
        self.ends = []          # the socket whose end tells that all this is over, and what fstat says of it
        self.deadline = monotonic() + GRACE
        self.ring = self.control = self.thread = self.pipe = None
        self.serve = None       # what the control thread does, of life.py
        self.failures = self.errors = 0
        self.opening, self.busy = _thread.RLock(), False
        self.exchange = _thread.allocate_lock()     # held while an ended control thread gives way to another or to none
        self.early, self.over, self.lost = [], False, False
        self.rank, self.world = rank


settings = Settings()
current = None      # the Process; None: it is not observed
observer = None     # of torch (observe/observer.py), once that is there
census = None       # the one that runs (census/census.py)
evaluated = {}      # name in __main__ that an eval has made: id of its value; what it holds is no evidence
work = [0]          # what a step is: a place in record/_spec.WORK_KINDS
tokens = deque(maxlen=65536)    # of the units of work since the last record
followed = False    # a census has found containers, which are counted until the next (census/counting.py)
guard = None        # what acts by a policy at the ends of steps (guard/engine.py)
guard_hooks = None  # what the program has told it, maybe before it is there (guard/hooks.py)
make_guard = None   # called when the first step has ended, where there is a policy
evals = set()       # idents of the threads that run clients' code, or wait to (evaluate/moment.py)
native = None       # looks at what the program has loaded, while its native memory is sampled (native.py)
sigmask = None      # the signals blocked where we started: what a thread that runs the user's code should have
at_exit = None      # what is to be called as the process ends


def wake():
    """Has the control thread look round, where it serves already. From any thread."""
    control = current.control if current is not None else None
    if control is not None and control.listener is not None:
        control.wake()


def training_begins():
    """The first step has ended, and there is a ring: the control thread looks round, and the guard comes."""
    wake()
    if make_guard is not None:
        make_guard()


def came_later():
    """Whether the program ran before we came."""
    return current is not None and current.birth == "attach"


def agent_hash():
    """Content hash of the agent: the name of the directory that it was unpacked into (HASH/lib/memgauge/_agent)."""
    return __file__.split("/")[-5]


def event(name, text="", a=0, b=0, c=0, d=0, code=0):
    """From any thread. Before there is a ring, the first few are kept for it, with their time."""
    s = current
    if s is None:
        return
    if s.ring is not None:
        s.ring.event(name, text, a, b, c, d, None, code)
    elif len(s.early) < MAX_EARLY:
        s.early.append((name, text, a, b, c, d, monotonic_ns(), code))


def error(where):
    """Records the exception that is being handled; it must not reach the user's code."""
    s = current
    if s is None or s.errors >= MAX_ERRORS:
        return
    s.errors += 1
    try:
        import traceback
        event("error", where + ": " + traceback.format_exc()[-1800:])   # the end says what; MAX_TEXT is 2000
    except Exception:
        pass


def rank():
    """(rank, world size), -1 while unknown."""
    s = current
    return (-1, -1) if s is None else (s.rank, s.world)


def set_rank(number, world):
    """Told by who asked torch.distributed."""
    s = current
    if s is None or (number, world) == (s.rank, s.world):
        return
    s.rank, s.world = number, world
    if s.ring is not None:
        s.ring.set_rank(number, world)
        s.ring.event("rank", a=number, b=world)
