"""The end of a worker of multiprocessing: it leaves with os._exit, after its finalizers and without atexit's functions
(Lib/multiprocessing/process.py, _bootstrap -> util._exit_function).

A worker forgets all finalizers as it begins (util._finalizer_registry.clear() in _bootstrap). On a busy machine our
ring is open before that: so the finalizer is made as the ring is opened, and by a hook of multiprocessing's own once
more when the worker begins. Its main thread then walks through the hooks, and dies of one that another thread adds
meanwhile (util._run_after_forkers: "dictionary changed size during iteration"). So our thread adds none: the hook is
made by the thread that forks, before it does, and in a spawned worker by its main thread, before it begins.
"""
import sys

_finalizer = _fork = None


class _Fork:
    """What multiprocessing.util.register_after_fork wants: an object to go by, which it does not keep alive."""

    def __init__(self, util, at_exit):
        self.util, self.at_exit = util, at_exit

    def begins(self):
        watch(self.at_exit)


def is_one():
    """Whether this process is a worker, by now."""
    parent = getattr(sys.modules.get("multiprocessing.process"), "parent_process", None)
    return parent is not None and parent() is not None


def watch(at_exit):
    """Calls at_exit() as this process ends, if it is a worker. It must bear being called twice."""
    global _finalizer
    util = sys.modules.get("multiprocessing.util")
    if hasattr(util, "Finalize") and is_one():
        if _finalizer is None or not _finalizer.still_active():
            _finalizer = util.Finalize(None, at_exit, exitpriority=-1000)


def expect(at_exit):
    """Has workers that begin from now on watched: the next children, or this process itself."""
    global _fork
    util = sys.modules.get("multiprocessing.util")
    # another thread may be in the middle of importing it
    if _fork is None and hasattr(util, "register_after_fork"):
        _fork = _Fork(util, at_exit)
        util.register_after_fork(_fork, _Fork.begins)


def spawned(at_exit):
    """expect() where Python was started to be a worker (multiprocessing.spawn.is_forking): what it needs is loaded
    anyway."""
    import multiprocessing.util  # noqa: F401
    expect(at_exit)


def forget():
    global _finalizer, _fork
    _fork = None
    if _finalizer is not None:
        _finalizer.cancel()
        _finalizer = None
