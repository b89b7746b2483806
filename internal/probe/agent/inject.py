# The code that attach runs in a process to start the agent there. It is preceded by the names FOLDER, SOURCES, KEPT and
# REQUEST. The attaching memgauge reads `result`. The agent's modules lie in FOLDER, or are sent along as text.
import sys


class Finder:
    """Finds the agent's modules until the agent is detached. `sources` has their text by path, or None if the file lies
    in `folder`. `codes` has compiled code from an earlier attach, `fresh` code that was compiled now."""

    def __init__(self, package, folder, sources, codes):
        self.memgauge, self.folder, self.sources, self.codes, self.fresh = package, folder, sources, codes, {}

    def find_spec(self, name, path=None, target=None):
        path = self.path(name)
        if path not in self.sources:
            return None
        from importlib.machinery import ModuleSpec
        return ModuleSpec(name, self, origin="memgauge", is_package=path.endswith("__init__"))

    def path(self, name):
        """Of a module below the package's folder, without ".py"; "" for what is not ours."""
        parts = name.split(".")
        if parts[0] != self.memgauge:
            return ""
        package = "/".join(parts[1:] + ["__init__"])
        return package if package in self.sources else "/".join(parts[1:])

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        path = self.path(module.__name__)
        # a name that is no file's: coverage leaves such code out (memgauge/__init__.py says more)
        module.__file__ = "/".join(["<memgauge>"] + self.folder.split("/")[-3:] + [path + ".py"])
        exec(self.code(path, module.__file__), module.__dict__)

    def code(self, path, file):
        code = self.codes.get(path)
        if code is None:
            text = self.sources[path]
            if text is None:
                with open("%s/%s.py" % (self.folder, path), "rb", 0) as f:
                    text = f.read()
            code = self.fresh[path] = compile(text, file, "exec", dont_inherit=True)
        return code

    def invalidate_caches(self):
        pass


class Kept:
    """The agent's compiled code, kept in a file for all interpreters of this version. Compiling costs 30 ms, and MBs of
    memory that malloc keeps. The file is no additional risk: who can write its directory could change the sources."""

    SEED = 0x6d656d6761756765

    def __init__(self, prefix):
        from _frozen_importlib_external import MAGIC_NUMBER     # of the bytecode, as in .pyc files
        self.path = prefix and "%s-%x-%s-%d" % (prefix, sys.hexversion, MAGIC_NUMBER.hex(), sys.flags.optimize)

    def load(self):
        """By name. The file goes into pages of its own: malloc might keep so much for ever."""
        if self.path is None:
            return {}
        import _imp
        import marshal
        import mmap
        try:
            with open(self.path, "rb", 0) as f:
                size = f.seek(0, 2)
                f.seek(0)
                with mmap.mmap(-1, size or 1) as data, memoryview(data) as view, view[8:] as rest:
                    whole = f.readinto(data) == size and size > 8 and _imp.source_hash(self.SEED, rest) == view[:8]
                    return marshal.loads(rest) if whole else {}     # a machine that crashed may have cut it off
        except OSError:     # there is none
            return {}

    def store(self, codes):
        import _imp
        import marshal
        import os
        data = marshal.dumps(codes)
        temp = "%s.%d" % (self.path, os.getpid())
        try:
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.fchmod(fd, 0o600)    # whatever the umask has taken away
                whole = os.writev(fd, (_imp.source_hash(self.SEED, data), data)) == 8 + len(data)
            finally:
                os.close(fd)
            os.rename(temp, self.path) if whole else os.unlink(temp)
        except OSError:     # then the next one compiles again
            pass


def strings(value):
    """The texts in compiled code that Python keeps one copy of (Objects/codeobject.c, intern_strings), each once."""
    found, rest = set(), [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            found.add(sys.intern(value))
        elif isinstance(value, (tuple, frozenset)):
            rest += value
        elif hasattr(value, "co_code"):
            rest += (value.co_name, value.co_names, value.co_varnames, value.co_cellvars, value.co_freevars)
            rest += [c for c in value.co_consts if not isinstance(c, str) or c.isidentifier()]
    return tuple(found)


def package():
    """The agent's own name, unless the program has a module of that name, or could import one. pip installs our package
    too, of whatever version: half of each would be worse than both."""
    there = sys.modules.get("memgauge")
    if there is None:
        from importlib.util import find_spec
        free = find_spec("memgauge") is None
    else:   # what `memgauge run` has left of an agent that is over
        free = str(getattr(there, "__file__", "")).startswith("<memgauge>") and hasattr(
            sys.modules.get("memgauge._agent.state"), "current")
    return "memgauge" if free else "memgauge_agent"


def observed():
    """The agent's module life, where it is here already, of whatever version."""
    for name in "memgauge", "memgauge_agent":
        if getattr(sys.modules.get(name + "._agent.state"), "current", None) is not None:
            return sys.modules[name + "._agent.life"]
        first = sys.modules.get(name + ".process")      # the first release's
        if getattr(first, "_state", None) is not None:
            return first
    return None


def attach(folder, sources, kept, request):
    if sys.version_info < (3, 8):
        raise RuntimeError("Python %s: the agent needs 3.8 or newer" % sys.version.split()[0])
    there = observed()
    if there is not None:
        return there.attach(request)    # it says that it is here, or goes on where a killed memgauge left it
    name = package()
    kept = Kept(kept)
    finder = Finder(name, folder, sources, kept.load())
    sys.meta_path.append(finder)    # last: it is asked only for names that nobody else knows
    try:
        __import__(name + "._agent.life")
        result = sys.modules[name + "._agent.life"].attach(request)
    except BaseException:
        sys.meta_path = [f for f in sys.meta_path if f is not finder]   # another thread may be walking the old list
        for known in [n for n in sys.modules if n == name or n.startswith(name + ".")]:
            del sys.modules[known]
        raise
    codes = dict(finder.codes, **finder.fresh)
    if finder.fresh and kept.path:
        kept.store(codes)
    sys.modules[name + "._agent.persistent"].get("names.1", lambda: strings(tuple(codes.values())))
    finder.codes, finder.fresh = {}, {}     # what is imported later is seldom needed
    return result


result = attach(FOLDER, SOURCES, KEPT, REQUEST)
del SOURCES, Kept, strings, attach, observed, package
