"""Notices the import of torch.

A finder in front of sys.meta_path wraps the loader of `torch` alone. The loader puts the real one back before it runs
the module, so that inspect, pkgutil and importlib.reload see what they would see without us, and takes the finder off
when the import has succeeded. An import that fails goes through as it is, and the next try is noticed again.

Hooks go in on the thread that imports torch, at the end of that import: no module can be called and no optimizer made
before. Where torch is there already (a .pth file imported it), they go in at once, on the main thread. They never go in
from the control thread, where a training step could be half done.
"""
import sys


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
    torch = sys.modules.get("torch")
    if torch is not None:
        _found(torch)
    else:
        sys.meta_path.insert(0, _finder)


def remove():
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def _found(torch):
    from . import process
    try:
        from . import observer
        observer.install(torch)
    except Exception:
        process.error("hooks")
