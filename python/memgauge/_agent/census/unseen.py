"""What a walk from the roots can't reach: suspended generators, iterators, objects on a frame's value stack, and what
only C holds. A search through all of the collector's objects finds them. It is made if private memory grows and the
objects that censuses have found don't explain it.

The search can't be divided into slices: C makes and searches the list of all objects, in some 20 ms in a process with
torch, in which the trainer waits if it needs the GIL. So it is made seldom, and never if there are too many objects.
"""
import gc
import sys
from itertools import chain, compress, islice
from time import thread_time_ns
from types import AsyncGeneratorType, CoroutineType, GeneratorType

from .. import state
from . import introspect, roots, walk

MATERIAL = 2 << 20       # bytes of growth between two censuses that must be explained …
EXPLAINED = 0.4          # … to so much
MAX_LOOKS = 6            # of a process
COST = 30_000_000        # ns: assumed cost of a search
MAX_BLOCKS = 1_500_000   # of Python's allocator: the number of objects is below that
LARGE = 64               # items of a container that is worth a row
MOST = 512               # objects of a kind that are entered, the newest
IN_ONE_GO = 4_000_000    # ns for what can't wait as weak references

_SUSPENDED = {id(cls): cls for cls in (GeneratorType, CoroutineType, AsyncGeneratorType)}
_ITERATORS = {id(cls) for cls in (type(iter([])), type(iter({}.values())), type(iter({}.items())), enumerate, zip, map,
                                  filter, reversed, chain, islice, type(reversed([])), type(iter(int, 1)))}
_FRAMES = {id(GeneratorType): ("gi_frame", "gi_code"), id(CoroutineType): ("cr_frame", "cr_code"),
           id(AsyncGeneratorType): ("ag_frame", "ag_code")}


class Unseen:
    """The part of a Census for objects that no walk reaches."""

    def _unreached(self):
        self.named = self._named()
        memory = self.memory
        grown, named = self.anon - memory.anon, self.named - memory.named
        wanted = memory.unexplained = bool(self.compared and memory.anon and grown >= MATERIAL
                                           and named < EXPLAINED * grown)
        memory.anon, memory.named = self.anon, self.named
        if self.compared and (wanted or memory.looks) and memory.looks < MAX_LOOKS and self.affords(COST) \
                and sys.getallocatedblocks() <= MAX_BLOCKS:
            memory.looks += 1
            yield
            self._look()
            yield from self._queue(walk.MAX_VISITED)

    def _named(self):
        w = self.walk
        return sum(w.held.values()) + sum(w.groups.bytes)

    def _look(self):
        """Searches in one slice; objects that can be referenced weakly are visited in later ones."""
        own = {key for key, is_own in self.kinds._own.items() if is_own}
        suspended, rest, large = _search(own)
        started, limit, self.limit = self.slice_began, self.limit, IN_ONE_GO
        self.slice_began = thread_time_ns()
        try:
            for o in suspended[-MOST:]:
                if id(o) not in self.walk.done:
                    self._suspended(o)
            for o in rest[-MOST:] + large[-MOST:]:
                self._start(o)
        except walk.Pause:
            self.walk.left_out += 1
        finally:
            self.slice_began, self.limit = started, limit
            del suspended[:], rest[:], large[:]

    def _start(self, o):
        if id(o) in self.walk.done or id(o) in self.walk.queued or id(o) in state.evaluated.values():
            return
        label = introspect.short_name(type(o))
        if not self.kinds.own(type(o)):
            label = "<%s>" % label
        self.walk.start(o, label)

    def _suspended(self, o):
        cls = type(o)
        frame_name, code_name = _FRAMES[id(cls)]
        frame, code = getattr(o, frame_name), getattr(o, code_name)
        self.walk.done.add(id(o))
        if frame is None or not introspect.is_user_file(code.co_filename):
            return
        function = "%s()." % introspect.code_name(code)
        for name, value in list(roots.frame_values(frame, self.walk).items()):
            if type(name) is str and not name.startswith(("__", "@", ".")):
                self.homes.setdefault(function + name, code.co_filename)
                self.walk.start(value, function + name)


def _search(own):
    """(suspended functions, iterators and instances of the program's classes, large lists). All that is asked of each
    object is asked by C, in one go, and of most of them only their class; tuples are never held (cycles.tracked says
    why)."""
    wanted = own.union(_SUSPENDED, _ITERATORS, (id(list),))
    all = gc.get_objects()
    found = list(compress(all, map(wanted.__contains__, map(id, map(type, all)))))
    del all[:]
    suspended, rest, large = [], [], []
    for o in found:
        if type(o) is list:
            if len(o) >= LARGE and o is not found:
                large.append(o)
        elif id(type(o)) in _SUSPENDED:
            suspended.append(o)
        else:
            rest.append(o)
    del found[:]
    return suspended, rest, large
