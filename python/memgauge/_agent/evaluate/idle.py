"""Whether the main thread waits for something outside of PyTorch, so that code can run beside it."""
import _thread
import os
from time import clock_gettime_ns, monotonic, process_time_ns

from .. import frames, mainthread
from ..pipe import proc
from . import hindrance, scope

# s without CPU time after which the main thread is taken for waiting: in a system call of its own kind; in a lock of
# Python's, which looks like a wait for the GIL, in turns of 5 ms; in what may be a part of PyTorch's; and in whatever
# where another thread of the program's may train, and was only just not seen in PyTorch.
STILL_CALL, STILL_LOCK, STILL, STILL_OTHERS = 0.001, 0.012, 0.05, 0.1
# of a core: what the process's other threads may use where it is not known what the main thread waits for
QUIET = 0.2
# Linux system calls that wait for input, time, a child or a file's lock: read, poll, select, nanosleep, accept, recv…,
# wait…, … Not futex, in which PyTorch, OpenMP and CUDA wait too, and not what allocating memory may wait in.
_WAITS = {
    "x86_64": b"0 7 17 19 23 34 35 42 43 45 47 61 65 70 72 73 128 130 220 230 232 247 270 271 281 288 295 299 441",
    "aarch64": b"22 25 32 63 65 67 69 72 73 95 101 115 133 137 188 192 193 202 203 207 212 242 243 260 441",
}.get(os.uname().machine, b"").split()


class Idle:
    """Whether the main thread waits for something that is none of PyTorch's: it used no CPU time between two looks, its
    innermost frame is not PyTorch's, and neither is another thread."""

    def __init__(self):
        self.cpu, self.since, self.all, self.text = None, 0.0, 0, ""
        # of the thread with this number (Linux, posix-timers.h, make_thread_cpuclock)
        self.clock = ~os.getpid() << 3 | 6

    def look(self, visit, asked):
        """Checks once. asked: whether a pending call was requested, which it has not run yet."""
        try:
            return self._look(visit, asked)
        except OSError:      # the main thread has ended and left others behind, or there is no /proc
            return False

    def _look(self, visit, asked):
        stop = mainthread.stopped
        if stop is not None and stop.ident == mainthread.ident():
            visit.reason = "it stands still for another eval"
            return False
        cpu, now = clock_gettime_ns(self.clock), monotonic()
        if cpu != self.cpu:
            self.cpu, self.since, self.all = cpu, now, process_time_ns()
            if asked:            # it runs no bytecode in spite of the request, so it is in C code
                visit.reason = ""
            return False
        if now < self.since + STILL_CALL or not self._sleeps():
            return False
        frame = frames.innermost_of(mainthread.ident())
        if frame is None:
            return False
        call = self._call()
        if call in (b"running", b"-1"):    # -1: it waits for a page of memory
            return False
        if call not in _WAITS:
            least = STILL_LOCK if scope.is_ours_or_python(frame.f_code.co_filename) else STILL
            if now < self.since + least:
                return False
        return self._harmless(visit, frame, call, now)

    def _harmless(self, visit, frame, call, now):
        home, name = hindrance.torch_home(), frame.f_code.co_filename
        self.text = hindrance.place_of(frame)
        reason, hard = hindrance.of(frame)
        if hard:
            visit.wants_step = True
        elif name.startswith(home) and not name[len(home):].startswith(hindrance.HARMLESS):
            reason, hard = "it waits in PyTorch", True
        else:
            reason, some = hindrance.others()
            if not reason and some and (now < self.since + STILL_OTHERS or not self._quiet(now) or _others_run()):
                reason = "another thread works, perhaps with PyTorch"
            hard = bool(reason)
            visit.wants_step = visit.wants_step or hard
            if (not hard and home != "\0" and call not in _WAITS and not scope.is_ours_or_python(name)
                    and not self._quiet(now)):
                reason, hard = "it waits in C code that may be PyTorch's", True
        visit.reason = reason
        return not hard

    def _sleeps(self):
        """Also a thread that only has to wait for a core uses no CPU time."""
        return _state(os.getpid()) in (b"S", b"D")

    def _call(self):
        """The number of the system call that it waits in, b"" where the kernel doesn't say. Nothing else tells which C
        function was called by the innermost function."""
        try:
            return proc("/proc/self/task/%d/syscall" % os.getpid(), 32).split(None, 1)[0]
        except (OSError, IndexError):
            return b""

    def _quiet(self, now):
        """Whether all other threads of the process are idle."""
        return process_time_ns() - self.all < QUIET * 1e9 * (now - self.since)


def _others_run():
    """Whether another thread has a core, or waits for one: on a busy machine it uses no CPU time for a while."""
    mine = _thread.get_native_id()
    for task in os.listdir("/proc/self/task"):
        try:
            if int(task) != mine and _state(task) == b"R":
                return True
        except OSError:      # it has just ended
            continue
    return False


def _state(task):
    """R, S, D, … of a thread of this process: proc_pid_stat(5)."""
    return proc("/proc/self/task/%s/stat" % task, 4096).rpartition(b")")[2].split(None, 1)[0]
