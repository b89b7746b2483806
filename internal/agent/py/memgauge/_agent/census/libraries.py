"""What programs store in libraries: in known tables, and in globals that have grown.

There are 75,000 globals in a process with torch, in 2,000 modules. Which modules are the program's own, and which
globals of the others are containers, is remembered from census to census for as long as a module has as many globals.
"""
import sys
from collections import OrderedDict, defaultdict, deque

from . import entering, introspect

FIRST = 25_000_000     # ns that a pass over all of them takes, the first time; …
AGAIN = 6_000_000      # … and later

_LENGTHS = {id(cls): cls.__len__ for cls in (dict, list, set, deque, defaultdict, OrderedDict)}


class Libraries:
    """The part of a Census for the globals of modules."""

    def _names(self):
        """The modules, the program's own first among them. Module globals are entered by their names: whoever passes
        such a dict about doesn't hold it."""
        known, names, waiting = self.memory.modules, [], list(sys.modules)
        add = self.kinds.globals.add
        for begin in range(0, len(waiting), 128):
            some = []
            for name in waiting[begin:begin + 128]:
                module = sys.modules.get(name)
                if module is None:
                    continue
                entry = known.get(name)
                if entry is not None and entry[0] == id(module):
                    names.append((name, entry[1]))
                    add(entry[2])
                else:
                    some.append(name)
            for name, own in introspect.modules(some):
                module = sys.modules.get(name)
                if module is not None:
                    known[name] = entry = id(module), own, id(introspect.module_dict(module))
                    names.append((name, own))
                    add(entry[2])
            module = None
            if self.over():
                yield
        names.sort(key=lambda entry: (not entry[1], entry[0] != "__main__"))
        self.own_names = [name for name, own in names if own]
        self.library_names = [name for name, own in names if not own]
        parts = self.walk.done
        for key in self.kinds.globals:
            parts[key >> 6 & 63].add(key)
        yield

    def _tables(self):
        """What programs store in libraries most often: handlers and figures."""
        start = self.walk.start
        logging = sys.modules.get("logging")
        if logging is not None:
            values = introspect.module_dict(logging)
            start(values.get("root"), "logging.root")
            start(getattr(values.get("Logger"), "manager", None), "logging.Logger.manager")
        figures = sys.modules.get("matplotlib._pylab_helpers")   # pyplot keeps every figure that isn't closed
        if figures is not None:
            keeper = introspect.module_dict(figures).get("Gcf")
            if introspect.isinstance_of(keeper, type):
                start(introspect.namespace(keeper).get("figs"), "matplotlib.pyplot.open_figures")

    def _finalizers(self):
        """Comes last, so that an object that is also held elsewhere is reported there. Libraries have finalizers
        too."""
        start = self.walk.start
        finalize = getattr(sys.modules.get("weakref"), "finalize", None)
        if type(finalize) is type:
            self.libraries["weakref.finalize._registry"] = "<weakref>:1"
            registry = introspect.namespace(finalize).get("_registry")
            n = len(registry) if type(registry) is dict else 0
            if self.memory.finalizers is None:
                self.memory.finalizers = n
            if n >= self.memory.finalizers + entering.SMALL:     # else all of it is libraries' own, and large
                start(registry, "weakref.finalize._registry")
            else:
                self.walk.counted(n, "weakref.finalize._registry", "dict")
        count = getattr(sys.modules.get("atexit"), "_ncallbacks", None)     # C has them: they can only be counted
        if count is not None:
            self.libraries["atexit._callbacks"] = "<atexit>:1"
            self.walk.counted(count(), "atexit._callbacks", "function")

    def _libraries(self):
        """Of a library's globals only the lengths of containers are read; those that have grown since the census
        before are entered."""
        first = not self.memory.candidates
        if not self.affords(FIRST if first else AGAIN):
            return
        self.library = {}
        for name in self.library_names:
            if self.exhausted():
                break
            yield from self._unit(self._library, name)
        self.memory.library = self.library

    def _library(self, name):
        module = sys.modules.get(name)
        if module is None:
            return
        before, lengths, candidates = self.memory.library, _LENGTHS, self.memory.candidates
        values = introspect.module_dict(module)
        entry = candidates.get(name)
        if entry is None or entry[0] != len(values):
            keys = [key for key, value in list(values.items()) if id(type(value)) in lengths and type(key) is str]
            entry = candidates[name] = len(values), keys
        for key in entry[1]:
            value = values.get(key)
            length = lengths.get(id(type(value)))
            if length is None:
                continue
            n = length(value)
            if n >= entering.SMALL and value is not sys.modules:
                path = "%s.%s" % (name, key)
                self.library[hash(path)] = n
                if self.compared and n >= before.get(hash(path), n) + entering.SMALL:
                    home = values.get("__file__")
                    self.libraries[path] = "%s:1" % home if type(home) is str else "<%s>:1" % name
                    self.walk.start(value, path)
