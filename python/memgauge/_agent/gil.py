"""Shortens the wait of our threads for the GIL while a client waits for an answer.

A thread that waits for the GIL requests it from the holder after the switch interval, 5 ms. The wait begins anew
whenever the GIL was released meanwhile (Python/ceval_gil.c, take_gil). A main thread that releases it for 2 µs every
100 µs, for example by calling os.stat, never gets such a request, and holds the GIL again before the waiter has woken
up: evals took seconds to begin. So the interval is short from a client's connection to the beginning of its code and
after its answer, for LONGEST at a time; otherwise it is the program's own. And our threads must wake in time: by
default the kernel may wake them 50 µs late (timer slack, prctl(2)), and by then the GIL is taken again.
"""
import _thread
import os
import sys
from time import monotonic

from .pipe import identity, release

SHORT = 1e-5     # s; shorter than the time between two such calls, and not far below what a thread takes to wake up
LONGEST = 0.25   # s; other threads of the program's switch more often meanwhile

_program = _ours = None    # the program's interval, and ours as it reads back, while ours is set
_end = 0.0                 # monotonic s
_served = False            # the control thread is there, and asks due()
_lock = _thread.allocate_lock()
_slack = b""               # ns, as the kernel tells it: how late the program's threads may be woken


def punctual():
    """Has the kernel wake this thread, and threads that it starts, without delay."""
    global _slack
    before = _set_slack(b"1")
    _slack = _slack or before


def lax():
    """Restores the program's timer slack, before code of the user runs on this thread."""
    if _slack:
        _set_slack(_slack)


def _set_slack(value):
    """Sets this thread's, and returns what it was; b"" where /proc does not have it, or may not be written to."""
    try:
        fd = os.open("/proc/%d/timerslack_ns" % _thread.get_native_id(), os.O_RDWR | os.O_CLOEXEC)
        known = identity(fd)
        try:
            before = os.read(fd, 32)
            os.write(fd, value)
            return before
        finally:
            release(fd, known)
    except OSError:
        return b""


def serve(served):
    """Whether hurry() may set an interval from now on: a thread may end its code after the control thread has gone."""
    global _served
    with _lock:
        _served = served
    calm()


def hurry():
    """Sets the short interval, or prolongs it. From any thread; the control thread calls due() afterwards."""
    global _program, _ours, _end
    with _lock:
        if not _served:
            return
        _end = monotonic() + LONGEST
        if _program is None:
            _program = sys.getswitchinterval()
            sys.setswitchinterval(min(SHORT, _program))
            _ours = sys.getswitchinterval()


def calm():
    """Sets the program's interval, unless the program has set another one meanwhile. From any thread, more than
    once."""
    global _program
    with _lock:
        program, _program = _program, None
        if program is not None and sys.getswitchinterval() == _ours:
            sys.setswitchinterval(program)


def due():
    """Restores the program's interval when it is time. Returns when to call again (monotonic s), None for never."""
    if _program is None:
        return None
    if monotonic() < _end:
        return _end
    calm()
    return None


def after_fork():
    """In a forked child, whose parent's other thread may have held the lock."""
    global _lock
    _lock = _thread.allocate_lock()
    calm()
