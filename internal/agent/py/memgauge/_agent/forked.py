"""Imports that a thread of ours was in the middle of at a fork.

CPython resets the lock of all imports in a forked child, but not the lock of each module (Lib/importlib/_bootstrap.py,
_ModuleLock): a module that another thread was just importing stays locked by a thread which the child doesn't have, and
whoever imports it there waits for ever. So a fork waits for our thread's import, for a while, and what is half imported
nevertheless is forgotten in the child, which then imports it anew.
"""
import sys
from time import monotonic, sleep

from . import state

PATIENCE = 2.0      # s; the largest module of ours takes 20 ms where two others want each core


def awaited_import(thread):
    """Waits for our control thread if it imports; says whether it did."""
    end = monotonic() + PATIENCE
    imported = False
    while thread is not None and _imports(sys._current_frames().get(thread.ident)) and monotonic() < end:
        imported = True
        sleep(0.001)
    return imported


def _imports(frame):
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def forget_imports(parent):
    """In the child, where all threads of the parent but the one that forked are gone."""
    idents = state.evals.union(() if parent.thread is None else [parent.thread.ident])
    locks = getattr(sys.modules.get("_frozen_importlib"), "_module_locks", {})
    for name, ref in list(locks.items()):
        lock = ref()
        if lock is not None and lock.owner in idents:
            locks.pop(name, None)
            sys.modules.pop(name, None)
