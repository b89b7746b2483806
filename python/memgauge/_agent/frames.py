"""Frames of other threads, read while those threads go on.

CPython 3.11 makes a frame object on request, and may collect garbage in the middle of that (Python/frame.c,
_PyFrame_MakeAndSetFrameObject; since 3.12 a collection waits for the next bytecode). A finalizer in Python then
releases the GIL, the other thread returns from that very function, and the next read hits freed memory: a wrong object,
or SIGSEGV. The same holds for reading f_locals, and a collection in sys._current_frames() waits for a lock that its own
thread holds (gh-106883, fixed in 3.11.5). So on 3.11 the collector is switched off for the time of one C call. All of
the agent's reads of other threads' frames go through this module.
"""
import sys
from _functools import partial
from _operator import is_not
from _thread import get_ident
from itertools import accumulate, chain, islice, repeat, starmap, takewhile

PIECE = 1000     # frames that are read without a pause: 0.2 ms in which no other thread gets the GIL

_is_frame = partial(is_not, None)


def at_once(function, *arguments):
    """What the function, one of C, returns."""
    return function(*arguments)


if (3, 11) <= sys.version_info < (3, 12):
    import gc
    from _collections import deque
    from _operator import call

    def at_once(function, *arguments):     # noqa: F811
        """What the function, one of C, returns. The collector rests meanwhile, and from its being switched off to its
        being put back all is one call of C: another thread that came between would see a collector that it has not
        switched off, or have one that it has switched off back on."""
        was, result = [], []
        steps = chain(map(was.append, starmap(gc.isenabled, ((),))),
                      starmap(gc.disable, ((),)),
                      map(result.append, starmap(function, (arguments,))),
                      map(call, map((gc.disable, gc.enable).__getitem__, was)))
        try:
            deque(steps, 0)
        except BaseException:
            if was == [True]:
                gc.enable()
            raise
        return result[0]


def innermost():
    """{thread's ident: its innermost frame} of all threads but the one that asks: its own would be a frame that has the
    very dict among its locals, and so keeps itself and all its callers' locals."""
    tops = at_once(sys._current_frames)
    tops.pop(get_ident(), None)
    return tops


def innermost_of(ident):
    """A thread's innermost frame, or None. Of the thread that asks, the one that asks."""
    return sys._getframe(1) if ident == get_ident() else innermost().get(ident)


def stack(frame, most=1 << 30):
    """[the frame, its caller, …], `most` at most; [] for None."""
    found = []
    while frame is not None and len(found) < most:
        outwards = accumulate(chain((frame,), repeat("f_back")), getattr)
        found += at_once(list, islice(takewhile(_is_frame, outwards), min(PIECE, most - len(found))))
        frame = caller(found[-1])
    return found


def caller(frame):
    """The frame that this one returns to, or None."""
    return at_once(getattr, frame, "f_back")


def values(frame):
    """frame.f_locals. Up to 3.12 that is a copy which stays in the frame: mainthread.let_go and release empty it."""
    return at_once(getattr, frame, "f_locals")
