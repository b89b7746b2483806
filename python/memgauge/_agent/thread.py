"""The control thread of a process: started with its signals blocked, ended before a fork or the exit, started again
after it.

It sleeps on a lock until the process is old enough for a ring, then does what s.serve says, which blocks until the pipe
tells it to stop. All signals are blocked in it, since a program that blocks signals in its only thread, to wait for
them, relies on there being no other.

CPython resets the lock of all imports in a forked child, but not the lock of each module (Lib/importlib/_bootstrap.py,
_ModuleLock): a module that another thread was just importing stays locked by a thread which the child doesn't have, and
whoever imports it there waits for ever. So a fork waits for our thread's import, for a while, and what is half imported
nevertheless is forgotten in the child, which then imports it anew.
"""
import _signal
import _thread
import os
import sys
from time import monotonic, sleep

from . import frames, state, unload
from .pipe import proc

JOIN = 0.05          # s that a fork or an exit waits for the control thread: it may be answering a client
PATIENCE = 2.0       # s; the largest module of ours takes 20 ms where two others want each core
FIRST = 0.5          # s that the start waits for the first thread's end, before 3.11; it takes some 300 µs
GONE = 0.01          # s that a fork waits for the kernel to take the ended thread off its list; it takes some 100 µs

_FAULTS = (_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT)  # faulthandler's own

recent = []     # the last 32 control threads: the kernel may list one that has ended for some more forks


class Thread:
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


def start(s):
    """Starts it with its signals blocked from birth. Where no thread can be had, there is no control socket."""
    if s.over or (s.thread is not None and not s.thread.ended(0)):
        return
    s.thread = thread = Thread()
    recent[:] = recent[-31:] + [thread]
    # SETMASK: the C library leaves its own two (32, 33) out, which may be blocked here: a thread that blocks the second
    # has every later setuid of the program wait for ever
    valid = _signal.valid_signals()
    first, ended = state.sigmask is None and sys.version_info < (3, 11), []
    state.sigmask = valid.intersection(_signal.pthread_sigmask(_signal.SIG_SETMASK, valid.difference(_FAULTS)))
    try:
        if first:
            first = False       # where no thread can be had, none is waited for
            _thread.start_new_thread(_first, (ended,))
            first = True
        thread.ident = _thread.start_new_thread(unload.outermost(), (_run, s, thread, s.wiped, s.ends))
    except RuntimeError:
        s.thread = None
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, state.sigmask)
    if first:
        _await_first(ended)


def _first(ended):
    """Before 3.11 the first thread that ends loads libgcc_s for pthread_exit, or aborts the process where no descriptor
    is left for that: it is one of ours, and the program goes on when it has ended."""
    ended.append(_thread.get_native_id())


def _await_first(ended):
    end = monotonic() + FIRST
    while not ended and monotonic() < end:
        sleep(2e-5)
    if ended:
        _await_kernel(ended[0], end)


def _run(s, thread):
    try:
        thread.ident, thread.native = _thread.get_ident(), _thread.get_native_id()
        wait = s.deadline - monotonic()
        if wait > 0:
            thread.wake.acquire(True, wait)
        if not (thread.stop or s.over):
            s.serve(s, thread)
    except BaseException:   # also SystemExit, which ends a thread without a word
        state.error("control thread")
    finally:
        thread.done.release()
        if thread.again:
            start_again(s, thread)


def stop(s, timeout=JOIN):
    """Ends the control thread; says whether it has ended, also in the kernel's eyes."""
    thread = s.thread
    if thread is None:
        return True
    if thread.ident == _thread.get_ident():
        return False
    del thread.again[:]     # of the fork before this one
    if s.pipe is not None and not s.pipe.intact():      # asked first: at its end the thread itself closes the pipe
        timeout = 0     # nothing wakes it until a client comes
    thread.stop = True
    try:
        thread.wake.release()
    except RuntimeError:    # it sleeps no longer
        pass
    if s.pipe is not None:
        s.pipe.wake()
    if not thread.ended(timeout) or not s.exchange.acquire(True, JOIN):
        return False
    another = s.thread is not thread    # which it has started at its end
    if not another:
        s.thread = None
    s.exchange.release()
    if another:
        return stop(s, timeout)
    return not thread.native or _await_kernel(thread.native, monotonic() + GONE)


def _await_kernel(native, end):
    """Waits until the kernel lists a thread no more, or until the end; says which. CPython 3.12+ counts threads by
    num_threads in /proc/self/stat, right after the fork and before the hook in the parent (Modules/posixmodule.c,
    warn_about_fork_with_threads). A thread that has run its last Python line is still there for some µs; the kernel
    takes it out of /proc/self/task and of the count at the same moment."""
    path = "/proc/self/task/%d" % native
    while monotonic() < end:
        try:
            os.stat(path)
        except OSError:
            return True
        sleep(2e-5)     # a mere yield would take the GIL back before the thread, which needs it once more, wakes up
    return False


def start_again(s, thread):
    if not s.exchange.acquire(True, JOIN):      # a signal handler that forks has interrupted one who holds it
        return
    try:
        thread.again.pop()
        start(s)
    except IndexError:      # the other side was quicker
        pass
    finally:
        s.exchange.release()


def signals_of_main():
    """The signals that the main thread blocks: the thread that an attach runs on blocks them all."""
    try:
        text = proc("/proc/self/task/%d/status" % os.getpid(), 1 << 16)
        mask = int(text.partition(b"\nSigBlk:")[2].split(None, 1)[0], 16)
    except (OSError, ValueError, IndexError):
        return set()
    return {n for n in _signal.valid_signals() if mask >> (n - 1) & 1}


def awaited_import(thread):
    """Waits for our control thread if it imports; says whether it did."""
    end = monotonic() + PATIENCE
    imported = False
    while thread is not None and _imports(frames.innermost_of(thread.ident)) and monotonic() < end:
        imported = True
        sleep(0.001)
    return imported


def _imports(frame):
    return any(f.f_code.co_filename.startswith("<frozen importlib") for f in frames.stack(frame))


def forget_imports(parent):
    """In the child, where all threads of the parent but the one that forked are gone."""
    idents = state.evals.union(() if parent.thread is None else [parent.thread.ident])
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, ref in list(locks.items()):
        lock = ref()
        if lock is not None and lock.owner in idents:
            locks.pop(name, None)
            sys.modules.pop(name, None)
