"""Samples of native memory in a program that runs already (docs/native.md). It loads the library that takes them, has
it lead the calls of malloc to itself, has it look at what the program loads later, and has it lead all of them back.
One thread at a time comes here: the control thread, or one that detaches once that has ended.
"""
import gc
import os
from itertools import chain, compress, count, repeat
from time import monotonic

from . import persistent, state

LOOK = 0.5       # s between two looks at what the linker has loaded: one call of C, without the GIL

_due = 0.0
_library = None     # its functions, while samples are taken


def begin(text):
    """text is INTERVAL TAB PATH OF THE LIBRARY. ValueError says why it can't be done: then nothing has changed."""
    global _library, _due
    s = state.current
    if _library is not None:
        return
    if s.runtime is None:
        raise ValueError("native: the process doesn't see the session's directory")
    interval, _, path = text.partition("\t")
    held = _private()
    library = _load(path)
    why = library["attach"](os.fsencode(s.runtime + "/native"), float(interval))
    if why is not None:
        raise ValueError("native: " + why.decode())
    _library, _due = library, monotonic() + LOOK
    state.native = tick
    try:
        _exchange(library["exchanged"])
    except Exception:
        state.error("native")
    state.event("native", "", held, library["told"](2))


def tick():
    """Looks when it is time; returns when the next time is."""
    global _due
    if _library is None:
        return None
    if monotonic() >= _due:
        _library["look"]()
        _due = monotonic() + LOOK
    return _due


def end():
    """Leads all calls back."""
    global _library
    library, _library, state.native = _library, None, None
    if library is None:
        return
    if library["detach"]():
        state.event("error", "native: some of the calls of malloc could not be led back; they go through the library")
    _exchange(library["exchanged"])


def _private():
    """Bytes of memory that are this process's alone now: what they are nobody will know."""
    with open("/proc/self/statm", "rb", 0) as f:
        fields = f.read().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def _load(path):
    """The library's functions by name. They stay, as the library does: each ctypes type is a circle of references
    that only a garbage collection frees."""
    loaded = persistent.get("native.1", dict)
    if path in loaded:
        return loaded[path]
    try:
        import ctypes
        library, held = ctypes.CDLL(path), ctypes.PyDLL(path)     # PyDLL keeps the GIL: for what takes no time
    except ImportError:
        raise ValueError("native: this Python has no ctypes, which loads the library")
    except OSError as error:
        raise ValueError("native: the library can't be loaded: %s" % error)
    pointer, number = ctypes.c_void_p, ctypes.c_long
    functions = {}
    for of, name, result, arguments in ((library, "attach", ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_double]),
                                        (library, "look", number, []), (library, "detach", number, []),
                                        (held, "exchanged", pointer, [pointer]),
                                        (held, "told", number, [ctypes.c_int])):
        functions[name] = function = getattr(of, "memgauge_" + name)
        function.restype, function.argtypes = result, arguments
    loaded[path] = functions
    return functions


def _exchange(exchanged):
    """ctypes keeps the address of a function that it has looked up, and calls that. It is exchanged in every function
    that has its address in memory of its own: others may point anywhere."""
    import ctypes
    from _ctypes import CFuncPtr
    owns = CFuncPtr._b_needsfree_.__get__
    for function in _functions(CFuncPtr):
        if owns(function):
            place = ctypes.c_void_p.from_address(ctypes.addressof(function))
            found = place.value
            other = exchanged(found) if found else found
            if other != found:
                place.value = other


def _functions(base):
    """All objects of a class of C and of those derived from it. One call of C asks for all objects, at 0.1 µs each,
    and keeps none but these: census/cycles.py says why no other may be held."""
    classes, rest = set(), [base]
    while rest:
        cls = rest.pop()
        classes.add(id(cls))
        rest += type.__subclasses__(cls)
    all, one = {}, {}
    lists = map(all.setdefault, (0,), map(gc.get_objects, (None,)))
    last = map(repeat, map(len, map(all.pop, (0,))), (1,))      # lets the list go
    objects = map(one.setdefault, count(), chain.from_iterable(chain(lists, last)))
    kinds = map(id, map(type, map(one.pop, count())))     # a class itself may have a __hash__ of the program's
    return list(compress(objects, map(classes.__contains__, kinds)))
