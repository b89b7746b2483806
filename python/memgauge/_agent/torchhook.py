"""Notices the import of torch, later of its compiler, and of other libraries that have steps. Says whether one has
ended: loaded().

A finder in front of sys.meta_path wraps the loaders of a few modules alone. The loader puts the real one back before it
runs the module, so that inspect, pkgutil and importlib.reload see what they would see without us, and takes the name
off when the import has succeeded; a finder without names goes. An import that fails goes through as it is, and the next
try is noticed again.

Hooks go in on the thread that imports torch, at the end of that import: no module can be called and no optimizer made
before. Where torch is there already (a .pth file imported it, or we were attached to a program that trains), they go in
at once, on whatever thread this is: the observer knows that a step may be half done. A program that is importing torch
when we are attached is looked at again until that has ended.
"""
import os
import sys
from time import monotonic

LOOK_AGAIN = 0.02    # s between two looks whether the import has ended


class _Loader:
    def __init__(self, real, finder, name):
        self._real, self._finder, self._name = real, finder, name

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        self._finder.imported(self._name, module)

    def __getattr__(self, name):
        return getattr(self._real, name)


class _Finder:
    """Its methods are only ever called under the import lock of one of its modules, but for importlib.util.find_spec.
    wanted: name -> what is to be called with that module."""

    def __init__(self, wanted):
        self.wanted, self.busy = wanted, set()

    def on(self):
        sys.meta_path.insert(0, self)

    def off(self):
        take_off(self)

    def imported(self, name, module):
        found = self.wanted.pop(name, None)
        if not self.wanted:
            self.off()
        if found is not None:
            found(module)

    def find_spec(self, name, path=None, target=None):
        if name not in self.wanted or name in self.busy:
            return None
        self.busy.add(name)
        try:
            spec = _next_spec(self, name, path, target)
        finally:
            self.busy.discard(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):    # not a folder that happens to be called torch
            spec.loader = _Loader(spec.loader, self, name)
        return spec

    def invalidate_caches(self):
        pass


def take_off(finder):
    """Takes a finder off sys.meta_path, which becomes another list. In the old one the finders behind would move up,
    and an import on another thread, which is walking it (importlib._bootstrap, _find_spec), would pass over one of
    them: it would not find a module that is there."""
    old = sys.meta_path
    if finder in old:
        new = [f for f in old if f is not finder]
        sys.meta_path = new
        new[:0] = [f for f in old if f is not finder and f not in new]    # what another thread has put in meanwhile


_importing = False   # torch was being imported when we came
_found = None        # what is to be called with torch
_finder = _Finder({})
_others = _Finder({})   # libraries that have steps of their own


def _next_spec(ours, name, path, target):
    """What the finders behind ours say."""
    finders = list(sys.meta_path)
    for finder in finders[finders.index(ours) + 1 if ours in finders else 0:]:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find else None
        if spec is not None:
            return spec
    return None


def notice(name, found):
    """Calls found(module) when the module has been imported, at once if it has been already. Returns what takes that
    off."""
    finder = _Finder({})
    _notice(finder, name, found)
    return finder.off


def notice_others(names, found):
    """The same for several modules, until remove()."""
    for name in names:
        _notice(_others, name, found)


def _notice(finder, name, found):
    module = loaded(name)
    if module is not None:
        found(module)
    elif name not in sys.modules:
        finder.wanted[name] = found
        if finder not in sys.meta_path:
            finder.on()


def install(found):
    """Calls found(torch) when torch has been imported."""
    global _importing, _found
    _found = found
    _importing = "torch" in sys.modules and loaded("torch") is None
    if not _importing:
        _notice(_finder, "torch", found)


def tick():
    """When to be called again (monotonic s), None for never."""
    if not _importing:
        return None
    install(_found)
    return monotonic() + LOOK_AGAIN if _importing else None


def remove():
    global _importing
    _importing = False
    _finder.off()
    _others.off()


def loaded(name):
    """The program's module once its import has ended, else None. Until then another thread finds it in sys.modules
    without most of its names."""
    module = sys.modules.get(name)
    return None if module is None or _initializing(module) else module


def cuda():
    """torch.cuda once the program has initialized it, else None. Neither is done here."""
    found = getattr(loaded("torch"), "cuda", None)
    initialized = getattr(found, "is_initialized", None)    # a folder of the program's may be called torch
    return found if initialized is not None and initialized() else None


def _initializing(module):
    return getattr(getattr(module, "__spec__", None), "_initializing", False)
