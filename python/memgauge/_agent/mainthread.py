"""Runs functions on the program's main thread, between two of its own bytecodes."""
import sys

from . import frames, persistent

# frame.f_locals is a copy kept in the frame; since 3.13 (PEP 667) it writes through
SNAPSHOTS = sys.version_info < (3, 13)

stopped = None     # what holds a thread still for an eval (evaluate/stop.py), if one does


def ident():
    threading = sys.modules.get("threading")
    return threading.main_thread().ident if threading is not None else None


def _make_pending():
    """The list of functions to run, and the C function that the main thread calls for that, which must outlive its last
    return. An exception in there comes from a signal handler of the user that happened to run: it is raised again where
    the main thread continues."""
    import ctypes
    from collections import deque
    calls = deque()

    def make_calls(_argument, calls=calls):
        try:
            while calls:
                call = calls.popleft()
                try:
                    function, done = call.pop()
                except IndexError:
                    continue
                try:
                    function()
                finally:
                    done.release()
                    function = None
        except BaseException as error:
            import ctypes
            import threading
            ident = ctypes.c_ulong(threading.main_thread().ident)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(type(error)))
        return 0
    return calls, ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(persistent.bare(make_calls))


_pending = None    # (calls, C function), once needed


def retire():
    """Before a detach: drops functions that the main thread has not run yet. Those that need not run there are run
    here."""
    while _pending is not None and _pending[0]:
        call = _pending[0].popleft()
        try:
            function, done = call.pop()
        except IndexError:
            continue
        if function.__name__ == "let_go_of":
            function()
        done.release()


def on_main_thread(function, wait):
    """Has the main thread call the function between two of its own bytecodes, and waits up to `wait` seconds.
    Returns "" or why it didn't happen; after a wait in vain it never will (with wait 0 it will, sooner or later)."""
    global _pending
    stop = stopped
    if stop is not None:    # it is stopped, and runs no pending call until it continues
        return "" if stop.call(function, wait) else "the main thread was busy for %g s" % wait
    try:
        import ctypes
    except ImportError:
        return "this Python has no ctypes"
    import _thread
    if _pending is None:
        _pending = persistent.get("pending.1", _make_pending)
    calls, thunk = _pending
    done = _thread.allocate_lock()
    done.acquire()
    call = [(function, done)]
    calls.append(call)
    if ctypes.pythonapi.Py_AddPendingCall(thunk, None) != 0:
        call.clear()
        return "the main thread has too much to do"
    if wait and not done.acquire(timeout=wait):
        try:
            call.pop()
            return "the main thread was busy outside Python for %g s" % wait
        except IndexError:   # it has just begun
            done.acquire(timeout=wait)
    return ""


# ---------------------------------------------------------------- snapshots of locals

def empty(frame):
    """Empties the snapshot and returns it. None, and it stays, where somebody else has it (`config = locals()` gives
    out the very same dict), or where a debugger or profiler is on: their call is framed by a copy into the snapshot and
    a copy back that unbinds every name that it lacks (Python/sysmodule.c call_trampoline)."""
    if sys.gettrace() is not None or sys.getprofile() is not None or frame.f_trace is not None:
        return None
    values = frames.values(frame)
    if sys.getrefcount(values) > 3:   # the frame's, ours, the argument's
        return None
    values.clear()
    return values


def release(read):
    """CPython <= 3.12: reading frame.f_locals leaves a snapshot in the frame that keeps every local alive, the last
    activations too, until it is read again or the function ends. Emptied on the main thread, at its next bytecode."""
    if SNAPSHOTS and read:
        def let_go_of():
            for frame in read:
                empty(frame)
        on_main_thread(let_go_of, 0)


def let_go(frame):
    """CPython <= 3.12: empties the snapshot that reading this frame's f_locals has just left in it. On this thread and
    at once where the frame is another thread's: until the main thread comes by, a reference would keep that frame
    alive."""
    if not SNAPSHOTS:
        return
    threading = sys.modules.get("threading")
    top = frames.innermost_of(threading.main_thread().ident) if threading is not None else None
    if threading is None or _outermost(top) == _outermost(frame):
        release([frame])
    else:
        empty(frame)


def _outermost(frame):
    return frames.stack(frame)[-1:]
