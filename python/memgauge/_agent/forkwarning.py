"""Keeps CPython 3.13's warning about a fork of a multi-threaded process from naming our thread.

3.12, 3.14 and 3.15 count the process's threads before the hooks in the parent run; 3.13.0 counts after them
(Modules/posixmodule.c, os_fork_impl), when our thread runs again. And in each version our thread may be too busy to end
before the fork. No code of ours runs between the count and the warning. So a warnings filter is installed, which
matches only that text, and only while there is no thread but the main one and ours. A program with threads of its own
gets the warning as usual.
"""
import os
import sys

from . import thread


class _OnlyOurs:
    """In the place of a filter's regular expression (Python/_warnings.c, check_matched)."""

    def match(self, text):
        if not text.startswith("This process (pid=%d) is multi-threaded, use of fork" % os.getpid()):
            return None
        return not _strangers() or None


def _strangers():
    """Whether there are threads that are not the main one nor ours. One of ours that has ended may still be in the
    kernel's list, and one that has just begun has not said its number."""
    tasks = os.listdir("/proc/self/task")      # first: a thread of ours that begins meanwhile is then known
    numbers = [run.native for run in list(thread.recent)]
    unborn = numbers[-1:] == [0]
    return sum(int(task) not in numbers for task in tasks if int(task) != os.getpid()) > unborn


_filter = ("ignore", _OnlyOurs(), DeprecationWarning, None, 0)


def _filters():
    import _warnings
    return getattr(sys.modules.get("warnings"), "filters", _warnings.filters)


def stand_by():
    """In front, where another filter may have come since."""
    filters = _filters()
    if not filters or filters[0] is not _filter:
        leave()
        filters.insert(0, _filter)


def leave():
    filters = _filters()
    while _filter in filters:
        filters.remove(_filter)
