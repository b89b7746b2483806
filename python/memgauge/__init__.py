"""The Python package of memgauge. It needs only the standard library. See docs/attach.md.

Programs import MemoryDebugger, MemoryProfiler, OOMDetector, FragmentationAnalyzer and DistributedMemoryMonitor
(tools.py); MemoryLeakDetector (leaks.py); step, unit and event (marks.py); guard and policy (guarding.py);
device, profiler and small tensors (docs/allocator.md). They are loaded when they are first used. memgauge.integrations
has callbacks for frameworks, and a plugin for pytest; memgauge.notebooks is the extension for IPython and Jupyter.
The package _agent runs in every observed process."""

_MODULES = {
    "tools": ("MemoryDebugger", "MemoryProfiler", "OOMDetector", "FragmentationAnalyzer", "DistributedMemoryMonitor",
              "OOMPrediction", "RiskLevel"),
    "leaks": ("MemoryLeakDetector",),
    "allocator": ("device", "set_memory_debug", "install_allocator", "OutOfMemoryError"),
    "arrays": ("empty", "zeros", "ones", "full", "rand", "matmul", "manual_seed", "from_buffer", "Tensor"),
    "profiler": ("profiler",),
    "marks": ("step", "event", "unit"),
    "guarding": ("guard", "policy", "GuardStop"),
    "notebooks": ("load_ipython_extension", "unload_ipython_extension"),
}


def _hide(folder):
    """Loads our modules under the name of no file, "<memgauge>/HASH/lib/memgauge/…". Coverage measures no such code,
    and debuggers and profilers can distinguish it from the program's. Python finds a package's modules through the
    finder in this cache (importlib._bootstrap_external, PathFinder); bytecode on disk stays as it is. Our finder lists
    no directory and leaves out what only other modules need. That makes our imports 20 % faster, which matters because
    they are part of each Python's start."""
    import _imp
    import sys
    from posix import stat
    files, specs = sys.modules["_frozen_importlib_external"], sys.modules["_frozen_importlib"]
    shown = "/".join(["<memgauge>"] + folder.split("/")[-3:])

    class Loader(files.SourceFileLoader):
        def get_code(self, name):
            code = super().get_code(name)
            _imp._fix_co_filename(code, self.shown())
            return code

        def exec_module(self, module):
            module.__file__ = self.shown()
            super().exec_module(module)

        def shown(self):
            return shown + self.path[len(folder):]

    class Finder:
        def __init__(self, directory):
            self.directory = directory
            sys.path_importer_cache[directory] = self

        def find_spec(self, name, target=None):
            path = "%s/%s" % (self.directory, name.rpartition(".")[2])
            file = path + ".py"
            if exists(file):
                return specs.ModuleSpec(name, Loader(name, file), origin=file)
            file = path + "/__init__.py"
            if not exists(file):
                return None
            spec = specs.ModuleSpec(name, Loader(name, file), origin=file, is_package=True)
            spec.submodule_search_locations.append(path)
            Finder(path)
            return spec

        def invalidate_caches(self):
            pass

    def exists(path):
        try:
            return stat(path) is not None
        except OSError:
            return False

    for function in (Loader.get_code, Loader.exec_module, Loader.shown, Finder.__init__, Finder.find_spec,
                     Finder.invalidate_caches, exists, _hide, __getattr__, __dir__):
        _imp._fix_co_filename(function.__code__, shown + "/__init__.py")
    Finder(folder)


_LAZY = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name):
    if name == "__version__":   # of this copy: in an observed process it is the one of the memgauge that observes
        from ._version import VERSION
        return VERSION
    if name not in _LAZY:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    import importlib
    module = importlib.import_module("%s.%s" % (__name__, _LAZY[name]))
    value = module if name == _LAZY[name] else getattr(module, name)
    globals()[name] = value     # step() is called in loops
    return value


def __dir__():
    return sorted(list(globals()) + list(_LAZY) + ["__version__"])


def _observing(folder):
    """Whether these are the files that `memgauge run` unpacks, AGENT/lib/memgauge beside AGENT/boot. The files of a
    package that pip installed are not hidden."""
    from posix import stat
    try:
        return stat(folder + "/../../boot/sitecustomize.py") is not None
    except OSError:
        return False


if __path__:    # else attach has sent the modules, and loads them in the same way
    try:
        if _observing(__path__[0]):
            _hide(__path__[0])
    except Exception:
        pass    # another Python's import system: then their files are visible
