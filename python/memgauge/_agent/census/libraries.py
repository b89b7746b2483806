"""What programs store in libraries: in known tables, and in globals that have grown.

There are 75,000 globals in a process with torch, in 2,000 modules. Which modules are the program's own, and which
globals of the others are containers, is remembered from census to census for as long as a module has as many globals.
"""
import sys
from _io import BytesIO, StringIO
from collections import OrderedDict, defaultdict, deque

from .. import frames
from . import entering, interactive, introspect, roots

PLAIN_LOGGER = 9       # attributes of a new logger
MAIN = "__main__"
MANAGER = "multiprocessing.Manager()"
LOGGERS = "logging.Logger.manager.loggerDict"

_LENGTHS = {id(cls): cls.__len__ for cls in (dict, list, set, deque, defaultdict, OrderedDict)}


class Libraries:
    """The part of a Census for the globals of modules."""

    own_names, library_names = (MAIN,), ()

    def _pass_by_globals(self):
        """Module globals are entered by their modules' names: whoever passes such a dict about doesn't hold it."""
        add, parts = self.kinds.globals.add, self.walk.done
        for name in list(sys.modules):
            module = sys.modules.get(name)
            if introspect.is_module(module):
                add(id(introspect.module_dict(module)))
        for key in self.kinds.globals:
            parts[key >> 6 & 63].add(key)

    def _names(self):
        """The modules, the program's own first among them. To tell these of 2,000 takes some 10 ms the first time."""
        if self._listed():
            yield
            return
        known, names, waiting = self.memory.modules, [], list(sys.modules)
        for begin in range(0, len(waiting), 128):
            some = []
            for name in waiting[begin:begin + 128]:
                module = sys.modules.get(name)
                if module is None:
                    continue
                entry = known.get(name)
                if entry is not None and entry[0] == id(module):
                    names.append((name, entry[1]))
                else:
                    some.append(name)
            for name, own in introspect.modules(some):
                module = sys.modules.get(name)
                if module is not None:
                    known[name] = id(module), own
                    names.append((name, own))
            module = None
            if self.over():
                yield
        names.sort(key=lambda entry: (not entry[1], entry[0] != "__main__"))
        self.own_names = _without_aliases(name for name, own in names if own)
        self.library_names = [name for name, own in names if not own]
        self.memory.listed = len(waiting), waiting[-1], self.own_names, self.library_names
        yield

    def _listed(self):
        """Takes the list of the census before, where no module came since."""
        listed, modules = self.memory.listed, sys.modules
        if listed is None or len(modules) != listed[0] or list(modules)[-1] != listed[1]:
            return False
        self.own_names, self.library_names = listed[2:]
        return True

    def _tables(self):
        """What programs store in libraries most often: handlers and figures."""
        start = self.walk.start
        logging = sys.modules.get("logging")
        if logging is not None:
            values = introspect.module_dict(logging)
            start(values.get("root"), "logging.root")
            self._logged()
        figures = interactive.figures()
        if figures is not None:
            start(figures, "matplotlib.pyplot.open_figures")
        self._kept_by_shell()

    def _kept_by_shell(self):
        """The last exception that nobody caught, and results of a notebook's cells."""
        main = sys.modules.get(MAIN)
        values = introspect.module_dict(main) if introspect.is_module(main) else {}
        kept = interactive.results(values)
        if kept is not None:
            self.walk.start(kept, interactive.RESULTS)
            for label, value in interactive.last_results(values):
                self.walk.start(value, label)
            shell = interactive.shell(values)
            if shell is not None:
                self.walk.done.add(id(shell))
        for label, value in interactive.errors():
            self.walk.start(value, label)

    def _pass_by_loggers(self):
        """Each logger leads to the manager, and this to all loggers: libraries have some hundred. Unless there are more
        than there were, nothing is entered by way of the manager."""
        manager, loggers = _loggers()
        if self.memory.loggers is None:
            self.memory.loggers = len(loggers)
        self.more_loggers = len(loggers) >= self.memory.loggers + entering.SMALL
        if manager is not None and not self.more_loggers:
            self.walk.done.add(id(manager))

    def _logged(self):
        """What loggers hold: of those of libraries, what they did not have when they were made."""
        manager, loggers = _loggers()
        if self.more_loggers:
            self.walk.start(manager, "logging.Logger.manager")
            return
        self.walk.counted(len(loggers), LOGGERS, "dict")
        for logger in list(loggers.values()):
            own = introspect.attributes(logger, type(logger)) or {}
            if len(own) > PLAIN_LOGGER:
                self.walk.start_below(logger, LOGGERS, "[*]")
                continue
            for kind in "handlers", "filters":
                found = own.get(kind)
                for o in found if type(found) is list else ():
                    if self.kinds.own(type(o)) or _holds_much(introspect.attributes(o, type(o)) or {}):
                        self.walk.start_below(o, LOGGERS, "[*]", "." + kind, "[*]")

    def _managed(self):
        """What a process of multiprocessing.Manager keeps for others: the server is the library's, the objects are the
        program's."""
        for o, label in self._served():
            self.walk.start(o, label)

    def _managed_counted(self):
        """Of those that there was no time to enter, the lengths."""
        lengths = {}
        for o, label in self._served():
            if id(type(o)) in _LENGTHS and self.walk.places.at(0, label) not in self.walk.length:
                n, _ = lengths.get(label, (0, ""))
                lengths[label] = n + _LENGTHS[id(type(o))](o), introspect.type_name(type(o))
        for label, (n, kind) in lengths.items():
            self.walk.counted(n, label, kind)

    def _served(self):
        managers = sys.modules.get("multiprocessing.managers")
        server = introspect.module_dict(managers).get("Server") if managers is not None else None
        serve = introspect.namespace(server).get("serve_forever") if type(server) is type else None
        code, found = getattr(serve, "__code__", None), []
        for top in frames.innermost().values() if code is not None else ():
            for frame in frames.stack(top, roots.MAX_FRAMES):
                if frame.f_code is code:
                    o = roots.frame_values(frame, self.walk).get("self")
                    kept = (introspect.attributes(o, type(o)) or {}).get("id_to_obj")
                    found += [v[0] for v in list(kept.values()) if type(v) is tuple and v] if type(kept) is dict else []
        return [(o, "%s.%s" % (MANAGER, introspect.short_name(type(o)))) for o in found]

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
        if not self.affords(self.memory.library_cost() + (0 if self.memory.unexplained else self.spent)):
            return           # it would take the next census's time, and what is the program's own comes first
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


def _loggers():
    """(the manager of loggers, the dict of all of them); (None, {}) without any."""
    logging = sys.modules.get("logging")
    cls = introspect.module_dict(logging).get("Logger") if logging is not None else None
    manager = introspect.namespace(cls).get("manager") if type(cls) is type else None
    loggers = (introspect.attributes(manager, type(manager)) or {}).get("loggerDict")
    return (manager, loggers) if type(loggers) is dict else (None, {})


def _holds_much(values):
    """Whether one of these values is a container of some size, or a stream in memory."""
    return any(_LENGTHS[id(type(value))](value) >= entering.SMALL if id(type(value)) in _LENGTHS else
               type(value) in (BytesIO, StringIO) for value in list(values.values()))


def _without_aliases(names):
    """Names of modules, without those of a module that has come before: multiprocessing calls __main__ __mp_main__."""
    seen, out = set(), []
    for name in names:
        key = id(sys.modules.get(name))
        if key not in seen:
            seen.add(key)
            out.append(name)
    return out
