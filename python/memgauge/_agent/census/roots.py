"""Running functions, which a walk begins with."""
import sys

from .. import frames, state
from . import introspect

MAX_FRAMES = 1000      # of a thread; Python's own limit for recursion

_NOT = (state.PACKAGE, "<memgauge", "<frozen ")   # our own, and the machinery of imports


class Roots:
    """Finds the roots again in each slice: what is kept between slices is their names."""

    def __init__(self, mine):
        self.mine = mine             # ident of our own thread

    def frames(self):
        """[(thread, distance from the outermost frame, code's id, is the program's own)], outer frames first, the main
        thread's before others."""
        out = []
        for thread, stack in self._stacks():
            out += [(thread, i, id(frame.f_code), introspect.is_user_file(frame.f_code.co_filename))
                    for i, frame in enumerate(stack) if frame.f_code.co_flags & 1]
        return out

    def _stacks(self):
        # Never imported by us: up to 3.12 the thread that imports it first passes for the main one
        # (threading._MainThread).
        main = getattr(getattr(sys.modules.get("threading"), "_main_thread", None), "ident", None)
        for thread, frame in sorted(frames.innermost().items(), key=lambda entry: entry[0] != main):
            if thread != self.mine:
                yield thread, _stack(frame)

    def find(self, thread, depth, code, _):
        stack = _stack(frames.innermost_of(thread))
        if depth < len(stack) and id(stack[depth].f_code) == code:
            return stack[depth]
        return None


def _stack(frame):
    """The frames of a thread, the outermost first."""
    return [f for f in frames.stack(frame, MAX_FRAMES) if not f.f_code.co_filename.startswith(_NOT)][::-1]


def frame_values(frame, walk):
    """{name: value} of a running function. Up to 3.12 reading them leaves a copy in the frame, which the caller has to
    have emptied: walk.frames lists those frames."""
    values = frames.values(frame)
    if type(values) is dict:
        walk.frames.append(frame)
    return values
