"""Inspects objects of the program without running any of its code.

Only CPython's own C functions are called, through the descriptors of the built-in types: type(o) reads ob_type
(o.__class__ may lie), and list.__len__ reads the list behind a subclass that defines its own. No attribute is looked up
on an instance, nor on a class whose metaclass could run code. No hash or comparison of the program's is called either:
objects are identified by their id.
"""
import functools
import gc
import sys
import types
from _weakref import ref as weak

from .. import state

# What there is to be done with an object, by its class
(ATOM, TENSOR, DICT, LIST, TUPLE, SET, DEQUE, FUNCTION, METHOD, CLASS, MODULE, FRAME, TRACEBACK, CELL, ERROR,
 INSTANCE, ARRAY, BUILTIN, CACHE, STREAM) = range(20)

mro = type.__dict__["__mro__"].__get__
_flags = type.__dict__["__flags__"].__get__
_name = type.__dict__["__name__"].__get__
_qualname = type.__dict__["__qualname__"].__get__
_module = type.__dict__["__module__"].__get__
namespace = type.__dict__["__dict__"].__get__            # of a class: a mappingproxy
module_dict = types.ModuleType.__dict__["__dict__"].__get__
referents = gc.get_referents

HAVE_GC = 1 << 14    # Include/object.h, Py_TPFLAGS_HAVE_GC: without it an object leads nowhere
HEAP_TYPE, BASE_TYPE = 1 << 9, 1 << 10   # … Py_TPFLAGS_HEAPTYPE, _BASETYPE: all classes made in Python are both
_GETSET, _MEMBER = types.GetSetDescriptorType, types.MemberDescriptorType

_EXACT = {
    dict: DICT, list: LIST, tuple: TUPLE, set: SET, frozenset: SET, types.FunctionType: FUNCTION,
    types.MethodType: METHOD, type: CLASS, types.ModuleType: MODULE, types.FrameType: FRAME,
    types.TracebackType: TRACEBACK, types.CellType: CELL, types.BuiltinFunctionType: BUILTIN,
    types.MethodWrapperType: BUILTIN, functools._lru_cache_wrapper: CACHE,
}
_ATOMS = (weak, property, staticmethod, classmethod, types.CodeType, types.GetSetDescriptorType,
          types.MemberDescriptorType, types.WrapperDescriptorType, types.MethodDescriptorType,
          types.ClassMethodDescriptorType, slice, range, memoryview)
# what Python's own C keeps outside of what the collector knows
_SIZED = (("mmap", "mmap", "__len__"), ("array", "array", "__sizeof__"), ("_io", "BytesIO", "__sizeof__"),
          ("_io", "StringIO", "tell"), ("re", "Pattern", "__sizeof__"))     # StringIO tells nothing better
_STREAMS = "BytesIO", "StringIO"


PARTS_OF_ERRORS = [(name, BaseException.__dict__[name].__get__) for name in ("__cause__", "__context__", "args")]


class Kinds:
    """The kind of every class, determined once. It is kept for one census only, since the id of a class that is gone
    may be reused."""

    def __init__(self, tensor=None, parameter=None, module=None, optimizer=None, array=None):
        from collections import deque
        self.of = of = {}            # id of a class -> kind
        self.sized = sized = {}      # id of a class without referents -> bytes of an instance
        self.plain = {}              # id of a class -> whether it is one of Python's own containers, without attributes
        self.flags = {}              # id of a class -> "parameter", "module", "optimizer"
        self.globals = set()         # ids of the modules' dicts
        self._own = {}               # id of a class -> whether the program defined it
        self._bases = [(DICT, dict), (LIST, list), (TUPLE, tuple), (SET, set), (SET, frozenset), (DEQUE, deque),
                       (CLASS, type), (MODULE, types.ModuleType), (ERROR, BaseException)]
        for kind in _EXACT:
            of[id(kind)] = _EXACT[kind]
        of[id(deque)] = DEQUE
        for kind in _ATOMS:
            of[id(kind)] = ATOM
        for kind in (str, bytes, bytearray):
            of[id(kind)] = ATOM
            sized[id(kind)] = kind.__sizeof__
        for kind, size in ((float, 24), (complex, 32), (int, 32)):
            of[id(kind)] = ATOM
            sized[id(kind)] = _constant(size)
        for kind in (bool, type(None), type(...), type(NotImplemented)):
            of[id(kind)] = ATOM
            sized[id(kind)] = _constant(0)
        for home, name, method in _SIZED:
            kind = getattr(sys.modules.get(home), name, None)
            if kind is not None:
                of[id(kind)] = STREAM if name in _STREAMS else ATOM
                sized[id(kind)] = _safely(kind.__dict__[method] if method in kind.__dict__ else getattr(kind, method))
        self.opaque = set()          # ids of classes whose instances have unknown sizes
        ctypes = sys.modules.get("_ctypes")
        self._foreign = getattr(ctypes, "Array", None), getattr(ctypes, "sizeof", None)
        self._tensor = tensor
        self._marks = [(m, name) for m, name in ((parameter, "parameter"), (module, "module"), (optimizer, "optimizer"))
                       if m]
        if array is not None:        # numpy.ndarray
            of[id(array)] = ARRAY
            self._bases.append((ARRAY, array))
            self.array = array
            self.base, self.nbytes = array.__dict__["base"].__get__, array.__dict__["nbytes"].__get__
            self.dtype = array.__dict__["dtype"].__get__

    def kind(self, cls):
        """The kind of a class, determined when it is first met."""
        known = self.of.get(id(cls))
        if known is None:
            known = self.of[id(cls)] = self._learn(cls)
        return known

    def own(self, cls):
        """Whether a class was made by a module of the program's own."""
        known = self._own.get(id(cls))
        if known is None:
            known = self._own[id(cls)] = is_user_class(cls)
        return known

    def _learn(self, cls):
        module = _module(cls)
        if type(module) is str and module.startswith("memgauge."):
            return ATOM              # our own
        bases = mro(cls)
        ids = {id(b) for b in bases}
        for mark, name in self._marks:
            if id(mark) in ids:
                self.flags[id(cls)] = name
        if self._tensor is not None and id(self._tensor) in ids:
            # A wrapper (DTensor, fake tensors …) answers every question by code of its own: look at its attributes
            # only.
            own = next((b for b in bases if "__torch_dispatch__" in namespace(b)), None)
            return TENSOR if own is None or own is self._tensor else INSTANCE
        for kind, base in self._bases:
            if id(base) in ids:
                return kind
        for base in bases:           # a subclass of str, of bytes, of an array …
            if id(base) in self.sized:
                self.sized[id(cls)] = self.sized[id(base)]
                if self.of.get(id(base)) == STREAM:
                    return STREAM
                return ATOM if not _flags(cls) & HAVE_GC or self.of.get(id(base)) == ATOM else INSTANCE
        if self._foreign[0] is not None and id(self._foreign[0]) in ids:
            self.sized[id(cls)] = self._foreign[1]
            return ATOM
        if is_opaque(cls):
            self.opaque.add(id(cls))
        return INSTANCE if _flags(cls) & HAVE_GC else ATOM


def _constant(size):
    return lambda o: size


def _safely(size):
    """Of what may be closed."""
    def measure(o):
        try:
            return size(o)
        except ValueError:
            return 0
    return measure


def is_opaque(cls):
    """Whether a class was made by a library's C code, whose instances may hold memory that nobody can see."""
    if type(cls) is not type and _name(type(cls)).startswith(("pybind11_", "nb_")):
        return True
    name = _module(cls)
    if _flags(cls) & HEAP_TYPE:      # a decompressor, a cursor; but not a lock
        return not _flags(cls) & BASE_TYPE and name not in ("_thread", "builtins")
    if name == "zlib":               # before 3.9
        return True
    if name == "builtins":           # an extension that gives its classes no module's name (Pillow's pixels)
        return _name(cls)[:1].isupper() and sys.modules["builtins"].__dict__.get(_name(cls)) is not cls
    if type(name) is not str or name.partition(".")[0] in sys.builtin_module_names:
        return False
    home = module_dict(sys.modules[name]).get("__file__") if type(sys.modules.get(name)) is _Module else None
    return type(home) is not str or not home.startswith(_STANDARD) or "-packages/" in home


def type_name(cls):
    """module.Class, for people."""
    module, name = _module(cls), _qualname(cls)
    if type(name) is not str:
        name = _name(cls)
    return "%s.%s" % (module, name) if type(module) is str and module != "builtins" else name


def short_name(cls):
    name = _qualname(cls)
    return name.rpartition("<locals>.")[2] if type(name) is str else "?"


def attributes(o, cls):
    """The dict with an instance's attributes, or None. A `__dict__` that a class of the program's defines is passed
    by."""
    for base in mro(cls):
        found = namespace(base).get("__dict__")
        if type(found) is _GETSET:
            try:
                values = found.__get__(o)
            except (AttributeError, TypeError):
                return None
            return values if type(values) is dict else None
    return None


def slots(o, cls):
    """(name, value) of the attributes that live in slots."""
    for base in mro(cls):
        for name, descriptor in list(namespace(base).items()):
            if type(descriptor) is _MEMBER and type(name) is str:
                try:
                    yield name, descriptor.__get__(o)
                except (AttributeError, TypeError):
                    pass


HEAD, MIDDLE, TAIL = 64, 256, 192   # of a large container: the newest lie at the end
LARGE = 1024                        # items; in containers up to this size all items are visited


def stride(n):
    """The stride at which items of the middle are visited. It is a power of two, so that mostly the same items are
    visited when the container grows."""
    step = 1
    while (n - HEAD - TAIL) // step > MIDDLE:
        step *= 2
    return step


def items_of_list(o, base, n):
    """(items, weight) of a list or tuple; base is the built-in class."""
    if n <= LARGE:
        return base.__getitem__(o, slice(0, n)), 1
    get = base.__getitem__
    step = stride(n)
    out = list(get(o, slice(0, HEAD)))
    first = -(-HEAD // step) * step
    out += get(o, slice(first, n - TAIL, step))
    out += get(o, slice(n - TAIL, n))
    return out, n / max(1, len(out))


def items_of_dict(o, n):
    """(keys, values, weight). A dict can't be entered in the middle: the first and the newest are taken."""
    from itertools import islice
    if n <= LARGE:
        return list(dict.keys(o)), list(dict.values(o)), 1
    sides = []
    for view in (dict.keys(o), dict.values(o)):
        part = list(islice(view, HEAD))
        part += islice(reversed(view), TAIL)
        sides.append(part)
    return sides[0], sides[1], n / max(1, len(sides[1]))


def items_of_set(o, base, n):
    from itertools import islice
    out = list(islice(base.__iter__(o), LARGE if n <= LARGE else HEAD + TAIL))
    return out, n / max(1, len(out))


def items_of_deque(o, n):
    from collections import deque
    from itertools import islice
    if n <= LARGE:
        return list(islice(deque.__iter__(o), n)), 1
    out = list(islice(deque.__iter__(o), HEAD)) + list(islice(deque.__reversed__(o), TAIL))
    return out, n / max(1, len(out))


def is_user_file(filename):
    """Whether a file is the program's own: neither Python's, nor installed, nor ours."""
    if type(filename) is not str or filename.startswith("<"):
        return type(filename) is str and filename.startswith("<ipython-input-")     # a cell, where it has no file
    if "site-packages/" in filename or "dist-packages/" in filename:
        return False
    return not filename.startswith((_STANDARD, state.PACKAGE))


_STANDARD = sys.modules["os"].__file__.rpartition("/")[0] + "/"
_Module = types.ModuleType
Method = types.MethodType


def modules(names):
    """[(name, is the program's own)] of those names that are modules and not ours."""
    out = []
    for name in names:
        module = sys.modules.get(name)
        if type(name) is not str or not is_module(module):
            continue
        if name.startswith("memgauge") and name.partition(".")[0] == "memgauge":
            continue
        out.append((name, name in ("__main__", "__mp_main__") or is_user_file(module_dict(module).get("__file__"))))
    return out


def is_module(o):
    return type(o) is _Module or isinstance_of(o, _Module)


def isinstance_of(o, base):
    """isinstance without asking the object or its metaclass."""
    return any(b is base for b in mro(type(o)))


def is_user_class(cls):
    """Whether a class was made by a module of the program's own."""
    name = _module(cls)
    module = sys.modules.get(name) if type(name) is str else None
    if module is None or not isinstance_of(module, types.ModuleType):
        return False
    return name == "__main__" or is_user_file(module_dict(module).get("__file__"))


def code_name(code):
    """Qualified since 3.11."""
    return getattr(code, "co_qualname", code.co_name).rpartition("<locals>.")[2]


PARTS = 64     # a power of two


class Seen(list):
    """A set of ids in parts: a set of a million is enlarged or freed in 30 ms, which nothing can divide, a part of it
    in half of one. Where it matters, `key in seen[key >> 6 & 63]` spares a call."""

    def __init__(self):
        list.__init__(self, (set() for _ in range(PARTS)))

    def __contains__(self, key):
        return key in self[key >> 6 & 63]

    def add(self, key):
        self[key >> 6 & 63].add(key)

    def count(self):
        return sum(map(len, self))
