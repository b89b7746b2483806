"""The end of a worker of multiprocessing: it leaves with os._exit, after its finalizers and without atexit's functions
(Lib/multiprocessing/process.py, _bootstrap -> util._exit_function).

A forked worker forgets all finalizers as it begins (BaseProcess._after_fork). On a busy machine our ring is open before
that: so the finalizer is made now, and by a hook of multiprocessing's own once more when the worker begins.
"""
import sys

_finalizer = _fork = None


class _Fork:
    """What multiprocessing.util.register_after_fork wants: an object to go by, which it does not keep alive."""

    def __init__(self, util, at_exit):
        self.util, self.at_exit = util, at_exit

    def begins(self):
        global _finalizer
        parent = getattr(sys.modules.get("multiprocessing.process"), "parent_process", None)
        if parent is not None and parent() is not None:
            if _finalizer is None or not _finalizer.still_active():
                _finalizer = self.util.Finalize(None, self.at_exit, exitpriority=-1000)


def watch(at_exit):
    """Calls at_exit() as this process ends, if it is a worker or becomes one. It must bear being called twice."""
    global _fork
    util = sys.modules.get("multiprocessing.util")
    if hasattr(util, "Finalize") and _fork is None:     # not while the main thread is in the middle of importing it
        _fork = _Fork(util, at_exit)
        util.register_after_fork(_fork, _Fork.begins)
        _fork.begins()


def forget():
    global _finalizer, _fork
    _fork = None
    if _finalizer is not None:
        _finalizer.cancel()
        _finalizer = None
