"""Garbage that waits for the collector: objects that only hold each other, and objects that Python can't reach.

A walk from the roots can't reach them, and gc.get_objects() would pause the trainer for tens of milliseconds. So
instances of the program's own classes are searched in two places. One are the generations that are known to be small
(gc.get_count() tells the size of the youngest beforehand). The other are instances that an earlier census has reached:
those that are alive, but not reached any more. A few instances of each class are then examined: the references from
within the group are subtracted from the reference counts, as the collector does (Python/gc.c, subtract_refs). That is
done without a pause, since the program may change the objects.
"""
import gc
import sys
from _weakref import ref as weak
from collections import Counter
from itertools import chain, compress, count
from operator import itemgetter, not_

from . import introspect
from .introspect import ATOM, CLASS, DICT, FUNCTION, INSTANCE, LIST, MODULE, TENSOR, TUPLE, referents

YOUNG = 30_000       # objects of a generation that is listed: 0.02 µs each, 0.1 µs if they are in no cache
NEWEST = 4_000       # of them are checked, 0.4 µs each: the last ones of a generation, which are the youngest
CLASSES = 8          # are examined
SAMPLES = 32         # instances of each
TRIALS = 2           # of them are examined
CLOSURE = 400        # objects that may hold each other, about 1 ms

_LEFT_OUT = {id(tuple), id(dict)}


def sizes():
    """Upper bounds of what the younger generations hold. Since 3.14 there is one."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    out = [counts[0]]
    if sys.version_info < (3, 14):
        out.append(counts[1] * max(thresholds[0], counts[0] if not gc.isenabled() else 0))
    return out


class Suspect:
    """A class with instances that the walk did not reach."""

    def __init__(self, cls, count=0):
        self.key, self.name, self.short = id(cls), introspect.type_name(cls), introspect.short_name(cls)
        self.count = count           # instances, as far as known
        self.samples = []            # weak references
        self.looked = self.unreached = 0
        self.tried = self.garbage = self.members = 0
        self.lost = False            # reached by an earlier census, alive, and not reached now
        self.bytes = 0               # of tensors behind the garbage
        self.path = ""

    @property
    def estimate(self):
        """Unreached instances."""
        return self.count * self.unreached / max(1, self.looked)


def young(kinds, reached, generation, everything=False):
    """[Suspect] of a generation, if that is small. reached(id) tells whether the walk has reached an object."""
    if not everything and not 0 < sizes()[generation] <= YOUNG:
        return []
    if everything:
        objects, scale = tracked(None, None)[0], 1
    else:
        objects, size = tracked(generation, NEWEST)
        scale = max(1, size / NEWEST)
    try:
        return _suspects(objects, kinds, reached, scale)
    finally:
        del objects[:]   # it is one of the young objects itself, and would hold itself and all the others


def tracked(generation, most):
    """(the last `most` of gc.get_objects(generation) without tuples and dicts, how many it had with all of them).

    C that makes a tuple of an iterator, tuple(…) or f(*…), shortens it at the end, and raises SystemError in the
    program if anybody else holds it then (tupleobject.c, _PyTuple_Resize); the collector knows it from the beginning.
    So no tuple may be held when another thread runs: one call of C, at 0.1 µs for each object that is looked at, asks
    for them and leaves them out. `all` has the list meanwhile, and its length becomes the last item; `one` has the
    object that is looked at. Dicts go with them: one may be what reading a frame's locals left behind, which is emptied
    while nobody else has it."""
    all, one = {}, {}
    lists = map(all.setdefault, (0,), map(gc.get_objects, (generation,)))
    newest = map(itemgetter(slice(most and -most, None)), lists)
    length = map(len, map(all.pop, (0,)))
    objects = map(one.setdefault, count(), chain.from_iterable(chain(newest, (length,))))
    classes = map(id, map(type, map(one.pop, count())))     # a class itself may have a __hash__ of the program's
    out = list(compress(objects, map(not_, map(_LEFT_OUT.__contains__, classes))))
    return out, out.pop()


def merge(suspects, more):
    """Adds those of another generation."""
    known = {s.key: s for s in suspects}
    for s in more:
        old = known.get(s.key)
        if old is None:
            suspects.append(s)
        else:
            old.count, old.looked, old.unreached = old.count + s.count, old.looked + s.looked, old.unreached + s.unreached
            old.samples += s.samples


def _suspects(objects, kinds, reached, scale):
    """All work for each object is done in C: 10 µs for 100 objects."""
    ids = list(map(id, map(type, objects)))
    one, counts = dict(zip(ids, range(len(ids)))), Counter(ids)
    found = {}
    for key, count in counts.most_common():
        cls = type(objects[one[key]])
        if kinds.kind(cls) == INSTANCE and kinds.own(cls):
            found[key] = Suspect(cls, count * scale)
            if len(found) == CLASSES:
                break
    seen = dict.fromkeys(found, 0)
    for i in compress(range(len(ids)), map(found.__contains__, ids)):
        key = ids[i]
        seen[key] += 1
        if seen[key] % max(1, counts[key] // SAMPLES) == 0:
            _sample(found[key], objects[i], reached)
    return [s for s in found.values() if s.samples]


def _sample(suspect, o, reached):
    suspect.looked += 1
    if reached(id(o)):
        return
    try:
        suspect.samples.append(weak(o))
    except TypeError:
        return
    suspect.unreached += 1


def lost(suspects, samples, reached):
    """Adds those of the sampled instances that are alive and not reached."""
    known = {s.key: s for s in suspects}
    for key, references in samples.items():
        for reference in references:
            o = reference()
            if o is None or reached(id(o)) or id(type(o)) != key:
                continue
            suspect = known.get(key)
            if suspect is None:
                if len(suspects) >= 2 * CLASSES:
                    return
                suspect = known[key] = Suspect(type(o))
                suspects.append(suspect)
            suspect.lost = True
            if any(other is reference for other in suspect.samples):
                continue             # it is among the young ones too: an object has one such reference
            suspect.samples.insert(0, reference)
            suspect.unreached += 1
            suspect.looked += 1
            suspect.count = max(suspect.count, suspect.looked)


def examine(suspect, kinds, torch):
    """Tries a few of the samples."""
    step = max(1, len(suspect.samples) // TRIALS)
    for sample in suspect.samples[::step][:TRIALS]:
        verdict = _try(sample, kinds, torch)
        if verdict is not None:
            suspect.tried += 1
            garbage, size, path, members = verdict
            if garbage:
                suspect.garbage += 1
                suspect.bytes += size
                if not suspect.path:
                    suspect.path, suspect.members = path, members


def _try(sample, kinds, torch):
    """(is garbage, bytes of tensors, path of the cycle, objects in it), or None when that can't be told."""
    members, index, tensors = [object()], {}, {}     # the first is only ours: its count shows our own references
    first = sample()
    if first is None:
        return None
    members.append(first)
    index[id(first)] = 1
    del first
    counts = [0, 0]
    position = 1
    while position < len(members) and len(members) < CLOSURE:
        _enter(members, position, index, counts, tensors, kinds)
        position += 1
    if position < len(members):
        return None                  # too many objects to examine
    base, outside = 0, []
    for i, m in enumerate(members):
        if i == 0:
            base = sys.getrefcount(m)
        elif sys.getrefcount(m) - base > counts[i]:
            outside.append(i)
    if _leads_to(outside, 1, members, index):
        return False, 0, "", 0
    size = sum(torch.measure(t)[1] for t in tensors.values()) if torch.found else 0
    path = _path(members, index, kinds)
    return path is not None, size, path or "", len(members) - 1


def _enter(members, position, index, counts, tensors, kinds):
    for r in referents(members[position]):
        j = index.get(id(r))
        if j is not None:
            counts[j] += 1
            continue
        kind = kinds.kind(type(r))
        if kind == TENSOR:
            tensors[id(r)] = r
        elif kind not in (ATOM, MODULE, CLASS, FUNCTION) and id(r) not in kinds.globals and gc.is_tracked(r):
            index[id(r)] = len(members)
            members.append(r)
            counts.append(1)


def _leads_to(starts, goal, members, index):
    waiting, seen = list(starts), set(starts)
    while waiting:
        i = waiting.pop()
        if i == goal:
            return True
        for r in referents(members[i]):
            j = index.get(id(r))
            if j is not None and j not in seen:
                seen.add(j)
                waiting.append(j)
    return False


def _path(members, index, kinds):
    """How the first member leads back to itself, as text; None if it doesn't."""
    before, waiting = {}, [1]
    while waiting and 1 not in before:
        ahead = []
        for i in waiting:
            for r in referents(members[i]):
                j = index.get(id(r))
                if j is not None and j not in before:
                    before[j] = i
                    ahead.append(j)
        waiting = ahead
    if 1 not in before:
        return None
    chain = [1]
    while True:
        chain.append(before[chain[-1]])
        if chain[-1] == 1 or len(chain) > CLOSURE:
            break
    chain.reverse()
    text = introspect.short_name(type(members[1]))
    for i, j in zip(chain, chain[1:]):
        text += _label(members[i], members[j], kinds)
    return text


def _label(holder, child, kinds):
    cls = type(holder)
    kind = kinds.kind(cls)
    if kind == LIST or kind == TUPLE:
        return "[*]"
    if kind == DICT:
        for key, v in list(dict.items(holder)):
            if v is child:
                return ".%s" % key if type(key) is str and key.isidentifier() else "[*]"
        return "[*]"
    values = introspect.attributes(holder, cls)
    if values is child:
        return ""
    for key, v in list((values or {}).items()):
        if v is child and type(key) is str:
            return "." + key
    for key, v in introspect.slots(holder, cls):
        if v is child:
            return "." + key
    return ".?"
