"""Gives a thread that runs a client's code the settings of the main thread: signal mask, CUDA device, `threading`."""
import _thread
import sys

from .. import frames, mainthread, state, torchhook

DEVICE_WAIT = 0.1  # s for the main thread to report its CUDA device; if it computes, that takes a few ms


def user_signals():
    """Sets the user's signal mask: our threads block all signals, but the code and its child processes must not."""
    if state.sigmask is not None:
        import _signal
        _signal.pthread_sigmask(_signal.SIG_SETMASK, state.sigmask)


_device = [0]    # the main thread's current one, when last heard


def same_device(stop):
    """CUDA's current device belongs to a thread: without this, memory_allocated() in the trainer of rank 3 would tell
    of device 0. A main thread that is blocked keeps the device that it had."""
    try:
        cuda = torchhook.cuda()
        if cuda is None or cuda.device_count() < 2:
            return
        if stop is not None and stop.device is not None:
            _device[0] = stop.device
        elif stop is None:
            mainthread.on_main_thread(lambda: _note_device(cuda), DEVICE_WAIT)
        cuda.set_device(_device[0])
    except Exception:   # a driver that fails
        pass


def _note_device(cuda):
    """On the main thread, where an exception would be the trainer's."""
    try:
        _device[0] = cuda.current_device()
    except Exception:   # a driver that fails
        pass


def threading_module():
    """The module. Up to 3.12 the thread that imports it first passes for the main thread (threading._MainThread), and a
    program without threads may leave that to us: then its notion of the main thread is put right."""
    first = "threading" not in sys.modules
    import threading
    if first:
        import os
        main = threading._main_thread
        main._native_id = os.getpid()
        if main.ident == _thread.get_ident():
            _name_main(threading, main)
    return threading


def _name_main(threading, main):
    for ident, frame in frames.innermost().items():
        if ident != main.ident and _is_program(frame):
            threading._active.pop(main.ident, None)
            threading._active[ident] = main
            main._ident = ident
            break
    else:
        return
    # _shutdown() releases the main thread's lock, then waits for all in _shutdown_locks; this one ends with our thread.
    ours = main._tstate_lock
    main._tstate_lock = _thread.allocate_lock()
    main._tstate_lock.acquire()
    threading._shutdown_locks.discard(ours)


def _is_program(frame):
    """Whether this is the stack of the program itself and not of a thread, which begins in a function."""
    outermost = frames.stack(frame)[-1].f_code
    return outermost.co_name == "<module>" or "runpy" in outermost.co_filename
