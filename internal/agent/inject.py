# What is run in a process that is to be observed from now on. The names SOURCES, HASH and REQUEST stand before it; what it
# leaves in `result` goes back to the one who attached. It opens no file: the agent's modules come along as text.
import sys


class Finder:
    """Finds the agent's modules in `sources`, for as long as the agent is there."""

    def __init__(self, package, sources, hash):
        self.memgauge, self.sources, self.hash = package, sources, hash

    def find_spec(self, name, path=None, target=None):
        head, _, tail = name.partition(".")
        if head != self.memgauge or (tail or "__init__") not in self.sources:
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, origin="memgauge", is_package=not tail)

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__.partition(".")[2] or "__init__"
        module.__file__ = "<memgauge>/%s/lib/memgauge/%s.py" % (self.hash, name)
        exec(compile(self.sources[name], module.__file__, "exec", dont_inherit=True), module.__dict__)

    def invalidate_caches(self):
        pass


def package():
    """The agent's own name, unless the program has a module of that name."""
    there = sys.modules.get("memgauge")
    return "memgauge" if there is None or hasattr(sys.modules.get("memgauge.process"), "attach") else "memgauge_agent"


def observed():
    """The module of the agent that is here already, of whatever version."""
    for name, module in list(sys.modules.items()):
        if name in ("memgauge.process", "memgauge_agent.process") and getattr(module, "_state", None) is not None:
            return module
    return None


def attach(sources, hash, request):
    if sys.version_info < (3, 8):
        raise RuntimeError("Python %s: the agent needs 3.8 or newer" % sys.version.split()[0])
    there = observed()
    if there is not None:
        return there.attach(request)    # it says that it is here, or goes on where a killed memgauge left it
    name = package()
    finder = Finder(name, sources, hash)
    sys.meta_path.append(finder)    # last: it is asked only for names that nobody else knows
    try:
        __import__(name + ".process")
        return sys.modules[name + ".process"].attach(request)
    except BaseException:
        sys.meta_path.remove(finder)
        for known in [n for n in sys.modules if n == name or n.startswith(name + ".")]:
            del sys.modules[known]
        raise


result = attach(SOURCES, HASH, REQUEST)
del SOURCES, attach, observed, package
