"""The lists, functions and loaders that a policy names, found in the program without running code of its own.

`*.outputs` is the attribute of every module of torch that has it in its own __dict__; `pkg.module.name` is a global,
also an attribute of one."""
import gc
import sys
import weakref
from collections import deque

from .. import torchhook

MAX_FOUND = 1000      # objects that one name stands for
REST = 3              # steps without growth: a list that is filled by steps may have one without


class Watched:
    """The lists of one name. Their owners are looked for once, and again only where none is left: that takes a walk
    over all objects, 50 ms with torch loaded."""

    def __init__(self, name):
        self.name = name
        first, _, rest = name.partition(".")
        self.everywhere, self.parts = first == "*", rest.split(".")
        self.owners = []         # weak references
        self.seen = {}           # id of a container -> Seen

    def search(self):
        if self.everywhere and not any(owner() is not None for owner in self.owners):
            self.owners = [weakref.ref(m) for m in modules_of_torch() if _follow(m, self.parts) is not None]

    def containers(self):
        """[(label, container)]"""
        if not self.everywhere:
            container = _global(self.name)
            return [] if container is None else [(self.name, container)]
        found = []
        for owner in self.owners:
            owner = owner()
            container = None if owner is None else _follow(owner, self.parts)
            if container is not None:
                found.append(("%s.%s" % (type(owner).__name__, ".".join(self.parts)), container))
        return found

    def look(self, step):
        """Notes the lengths at the end of a step."""
        known, self.seen = self.seen, {}
        for _, container in self.containers():
            seen = known.get(id(container))
            if seen is None:
                seen = Seen(step)
            seen.note(len(container), step)
            self.seen[id(container)] = seen

    def filled(self, step):
        """(ready, waiting, kept). ready: those that are known to leak, since they have grown again after a rest and
        have never become shorter by themselves; who fills them, an evaluation, has ended, and so has its hook, since
        the training goes on; and nobody but their owner refers to them, so that nobody is reading. waiting: those that
        still grow, or are new to us. kept: those that may be in use."""
        ready, waiting, kept = [], [], []
        found = self.containers()
        owner = {"x": []}
        alone = _references([("", owner["x"])])[0]
        for (label, container), references in zip(found, _references(found)):
            seen = self.seen.get(id(container))
            if not len(container):
                continue
            if seen is None or seen.length != len(container) or step - seen.since < REST:
                waiting.append((label, container))
            elif seen.bounded or seen.bursts < 2 or references > alone:
                kept.append((label, container))
            else:
                ready.append((label, container))
        return ready, waiting, kept

    def cleared(self, container):
        """It was us who made it shorter."""
        seen = self.seen.get(id(container))
        if seen is not None:
            seen.length = 0


class Seen:
    """What was seen of a container."""

    __slots__ = ("length", "since", "bursts", "resting", "bounded")

    def __init__(self, step):
        self.length, self.since = 0, step
        self.bursts = 0          # times that it has grown, with a rest between
        self.resting = True      # it has not grown for some steps
        self.bounded = False     # the program has made it shorter: it looks after it itself

    def note(self, length, step):
        if length == self.length:
            self.resting = self.resting or step - self.since >= REST
            return
        if length < self.length:
            self.bounded = True
        elif self.resting:
            self.bursts, self.resting = self.bursts + 1, False
        self.length, self.since = length, step


def _references(pairs):
    """Of each container, with those of ours: the same number for all that only a dict refers to."""
    return [sys.getrefcount(container) for _, container in pairs]


def modules_of_torch():
    torch = torchhook.loaded("torch")
    base = getattr(getattr(torch, "nn", None), "Module", None)
    if base is None:
        return []
    return [o for o in gc.get_objects() if _is(o, base)][:MAX_FOUND]


def loaders():
    """DataLoaders whose workers persist and run."""
    data = torchhook.loaded("torch.utils.data")
    base = getattr(data, "DataLoader", None)
    if base is None:
        return []
    return [o for o in gc.get_objects() if _is(o, base)
            and vars(o).get("persistent_workers") and vars(o).get("_iterator") is not None][:MAX_FOUND]


def function(name):
    """Of MODULE:FUNCTION. Raises LookupError with a text for the user."""
    module, _, path = name.partition(":")
    value = sys.modules.get(module)
    if value is None:
        raise LookupError("no module %s is loaded" % module)
    for part in path.split("."):
        try:
            value = getattr(value, part)
        except AttributeError:
            raise LookupError("%s has no %s" % (module, path))
    if not callable(value):
        raise LookupError("%s is not a function" % name)
    return value


def _is(thing, base):
    """Without asking the object: `__class__` may be a property of a proxy's."""
    return base in getattr(type(thing), "__mro__", ())


def _global(name):
    """The longest beginning that is a module; then a global and attributes of it."""
    parts = name.split(".")
    for n in range(len(parts) - 1, 0, -1):
        module = sys.modules.get(".".join(parts[:n]))
        if module is not None:
            return _follow(module, parts[n:])
    return None


def _follow(value, parts):
    for part in parts:
        try:
            value = object.__getattribute__(value, "__dict__").get(part)
        except (AttributeError, TypeError):
            return None
        if value is None:
            return None
    return value if isinstance(value, (list, dict, set, deque)) else None


def cut(container, length):
    """Keeps the newest entries; says how many went."""
    gone = len(container) - length
    if gone <= 0:
        return 0
    if isinstance(container, list):
        del container[:gone]
    elif isinstance(container, deque):
        for _ in range(gone):
            container.popleft()
    elif isinstance(container, dict):
        for key in list(container)[:gone]:
            del container[key]
    else:
        return 0        # a set has no newest entries
    return gone
