"""Notices the import of torch.

A finder in front of sys.meta_path wraps the loader of `torch` alone. The loader puts the real one back before it runs
the module, so that inspect, pkgutil and importlib.reload see what they would see without us, and takes the finder off
when the import has succeeded. An import that fails goes through as it is, and the next try is noticed again.

Hooks go in on the thread that imports torch, at the end of that import: no module can be called and no optimizer made
before. Where torch is there already (a .pth file imported it, or we were attached to a program that trains), they go in at
once, on whatever thread this is: the observer knows that a step may be half done. A program that is importing torch when
we are attached is looked at again until that has ended.
"""
import sys
from time import monotonic

LOOK_AGAIN = 0.02    # s between two looks whether the import has ended


class _Loader:
    def __init__(self, real):
        self._real = real

    def create_module(self, spec):
        return self._real.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._real
        self._real.exec_module(module)
        remove()
        _found(module)

    def __getattr__(self, name):
        return getattr(self._real, name)


class _Finder:
    """Its methods are only ever called under the import lock of `torch`, but for importlib.util.find_spec."""

    busy = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch" or self.busy:
            return None
        self.busy = True
        try:
            spec = _next_spec(self, name, path, target)
        finally:
            self.busy = False
        if spec is not None and hasattr(spec.loader, "exec_module"):    # not a folder that happens to be called torch
            spec.loader = _Loader(spec.loader)
        return spec

    def invalidate_caches(self):
        pass


_finder = _Finder()
_importing = False   # torch was being imported when we came


def _next_spec(ours, name, path, target):
    """What the finders behind ours say."""
    finders = list(sys.meta_path)
    for finder in finders[finders.index(ours) + 1 if ours in finders else 0:]:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, target) if find else None
        if spec is not None:
            return spec
    return None


def install():
    global _importing
    torch = sys.modules.get("torch")
    _importing = torch is not None and getattr(getattr(torch, "__spec__", None), "_initializing", False)
    if torch is None:
        sys.meta_path.insert(0, _finder)
    elif not _importing:
        _found(torch)


def tick():
    """When to be called again (monotonic s), None for never."""
    if not _importing:
        return None
    install()
    return monotonic() + LOOK_AGAIN if _importing else None


def remove():
    global _importing
    _importing = False
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _found(torch):
    from . import process
    try:
        from . import observer
        observer.install(torch)
    except Exception:
        process.error("hooks")
