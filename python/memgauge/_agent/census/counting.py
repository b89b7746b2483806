"""Counts between two censuses: how many items the containers have that the last census found.

A census costs milliseconds, so a run of ten seconds has one or two. What one container's length is can be asked again
for microseconds: its path is known, and leads from a running function's variable or a module's global by attributes and
keys to the same place. So some dozen containers are followed for the whole run: whether one gains as many items each
step, fills up, or is emptied, is seen at twenty moments instead of two. Rows have the evidence "count" and the number
of the census before.
"""
import sys
from collections import deque
from time import thread_time_ns

from .. import frames, mainthread, recording, state, torchhook
from ..record._spec import FLAG_ESTIMATED, NOT_TAKEN
from . import introspect, roots, rows, tensors
from .entering import IN_ONE_PIECE, maxlen
from .introspect import ARRAY, ATOM, DEQUE, DICT, LIST, SET, STREAM, TENSOR

LONG, FEW = 16, 24       # containers that are followed: those of the census's rows, and others that it met
LABELS = 8               # of a path at most
LIMIT = 1_000_000        # ns of a count
LEAST = 8                # items; shorter containers are not worth a row, as in a census
KEYED = 32               # items of a dict whose keys have places of their own
_LENGTH = {LIST: list.__len__, DICT: dict.__len__, DEQUE: deque.__len__}
_SIZE = {LIST: list.__sizeof__, DICT: dict.__sizeof__, DEQUE: deque.__sizeof__}


class Followed:
    """A container's path, and what rows say of it."""

    __slots__ = ("root", "labels", "path", "site", "least")

    def __init__(self, labels, path, site, least):
        self.root, self.labels, self.path, self.site = labels[0], labels[1:], path, site
        self.least = least       # items from which on it is told


def follows(labels):
    """Whether the labels of a place lead to a single object again."""
    return 0 < len(labels) <= LABELS and "[*]" not in labels[0] and all(
        label.startswith("['") or label[:1] == "." and label[1:].isidentifier() for label in labels[1:])


def choose(walk, ranked):
    """The containers to follow. `ranked`: (length, place, path, site) of those of a census with items."""
    places, chosen, known = walk.places, [], set()
    for _, place, path, site in sorted(ranked, key=lambda r: -r[0]):
        labels = places.labels(place)
        if len(chosen) < LONG and walk.containers.get(place) == 1 and follows(labels):
            known.add(place)
            chosen.append(Followed(labels, path, site, 0))
    met = [place for place in walk.met if place not in known and follows(places.labels(place))
           and not any(label.startswith("._") for label in places.labels(place))]
    for place in sorted(met, key=lambda place: (walk.met[place] < LEAST, len(places.labels(place))))[:FEW]:
        chosen.append(Followed(places.labels(place), places.path(place), "", LEAST))
    return chosen


def count(memory, step):
    """Writes a row for each container that is still there."""
    began = thread_time_ns()
    found = look(memory, began + LIMIT)
    ring = recording.ring(large=True)
    for text, flags, length, size in found if ring is not None else ():
        rows.put_objects(ring, text, (flags, memory.number, step, 1, 0, length, size))
    took = thread_time_ns() - began
    memory.purse.look(state.settings.budget)
    memory.purse.level -= took
    if ring is not None:
        ring.overhead(0, 0, ring.name("census"), 0, took, 1, memory.covered(ring, took), NOT_TAKEN)


def look(memory, until):
    """[(texts, flags, items, bytes)] of the containers that are there, as far as this thread's time `until` allows."""
    torch = tensors.Torch()
    kinds = introspect.Kinds(torch.tensor, torch.parameter, torch.module, torch.optimizer,
                             getattr(torchhook.loaded("numpy"), "ndarray", None))
    found, read = [], []
    try:
        variables = _variables({f.root for f in memory.followed}, read)
        for followed in memory.followed:
            if thread_time_ns() > until:
                break
            row = _look(followed, variables, kinds, torch)
            if row is not None:
                found.append(row)
        variables.clear()
    finally:
        mainthread.release(read)
    return found


def _variables(wanted, read):
    """{root's label: its value}: variables of running functions, globals of modules. A function that runs several times
    at once is left out: which of them a census saw is not known."""
    found, functions = {}, {}
    for root in wanted:
        function, call, name = root.rpartition("().")
        if call:
            functions.setdefault(function, []).append((name, root))
            continue
        module, _, name = root.rpartition(".")
        space = sys.modules.get(module)
        if space is not None and introspect.isinstance_of(space, type(sys)):
            values = introspect.module_dict(space)
            if name in values:
                found[root] = values[name]
    running = {}
    for top in frames.innermost().values() if functions else ():
        for frame in frames.stack(top, roots.MAX_FRAMES):
            function = introspect.code_name(frame.f_code)
            if function in functions:
                running[function] = None if function in running else frame
    for function, frame in running.items():
        if frame is None:
            continue
        values = frames.values(frame)
        if type(values) is dict:
            read.append(frame)
        for name, root in functions[function]:
            if name in values:
                found[root] = values[name]
    return found


def _look(followed, variables, kinds, torch):
    """A row for a container; None where it is not there."""
    o = variables.get(followed.root)
    for label in followed.labels:
        o = _below(o, label)
        if o is None:
            return None
    kind, cls = kinds.kind(type(o)), type(o)
    if kind == SET:
        length = (frozenset if introspect.isinstance_of(o, frozenset) else set).__len__(o)
    elif kind in _LENGTH:
        length = _LENGTH[kind](o)
    elif kind in (STREAM, ARRAY):
        size = int(kinds.sized[id(cls)](o) if kind == STREAM else kinds.nbytes(o))
        text = "count", introspect.type_name(cls), followed.path, followed.site, "of " + IN_ONE_PIECE
        return (text, FLAG_ESTIMATED, size, size) if size else None
    else:
        return None
    if length < max(1, followed.least):
        return None
    followed.least = 1
    item = _newest(o, kind)
    size = _bytes(item, kinds, torch)
    whole = NOT_TAKEN if size is None else int(_SIZE.get(kind, object.__sizeof__)(o) + length * size)
    about = "of " + introspect.type_name(type(item))
    bound = maxlen(o) if kind == DEQUE else None     # a census that was cut short has not told it
    if bound is not None:
        about += "; %d at most" % bound
    return ("count", introspect.type_name(cls), followed.path, followed.site, about), FLAG_ESTIMATED, length, whole


def _below(o, label):
    """What hangs at an object by a label; None where nothing does."""
    cls = type(o)
    if label.startswith("['"):
        if not introspect.isinstance_of(o, dict) or dict.__len__(o) > KEYED:
            return None
        return next((v for key, v in list(dict.items(o)) if type(key) is str and key == label[2:-2]), None)
    name = label[1:]
    if introspect.isinstance_of(o, type):
        return introspect.namespace(o).get(name)
    values = introspect.attributes(o, cls)
    if values is not None and name in values:
        return values[name]
    for slot, value in introspect.slots(o, cls):
        if slot == name:
            return value
    return None


def _newest(o, kind):
    """The newest item, as a sample of them."""
    try:
        if kind == LIST:
            return list.__getitem__(o, -1)
        if kind == DEQUE:
            return deque.__getitem__(o, -1)
        if kind == DICT:
            return next(reversed(dict.values(o)), None)
        return next(iter(o), None) if type(o) in (set, frozenset) else None
    except (LookupError, RuntimeError, TypeError):
        return None      # it was emptied, or changed, meanwhile


def _bytes(item, kinds, torch):
    """What an item takes, if that is plain to see; else None."""
    kind = kinds.kind(type(item))
    if kind == TENSOR:
        with torch.quiet():
            return torch.measure(item)[1]
    if kind == ARRAY:
        base = kinds.base(item)
        return kinds.nbytes(item if base is None or kinds.kind(type(base)) != ARRAY else base)
    if kind == ATOM:
        known = kinds.sized.get(id(type(item)))
        return known(item) if known is not None else None
    return None
