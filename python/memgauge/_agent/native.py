"""Samples of native memory in a program that runs already (docs/native.md). It loads the library that takes them, has
it lead the calls of malloc to itself, has it look at what the program loads later, and has it lead all of them back.
One thread at a time comes here: the control thread, or one that detaches once that has ended.
"""
import os
from time import monotonic

from . import persistent, state

LOOK = 0.5       # s between two looks at what the linker has loaded: one call of C, without the GIL

_due = 0.0
_library = None     # its functions, while samples are taken


def begin(text):
    """text is INTERVAL TAB PATH OF THE LIBRARY TAB WHAT NO SAMPLE SEES. ValueError says why it can't be done: then
    nothing has changed."""
    global _library, _due
    s = state.current
    if _library is not None:
        return
    if s.runtime is None:
        raise ValueError("native: the process doesn't see the session's directory")
    interval, path, unseen = (text + "\t").split("\t")[:3]
    held = _private()
    library = _load(path)
    why = library["attach"](os.fsencode(s.runtime + "/native"), float(interval))
    if why is not None:
        raise ValueError("native: " + why.decode())
    _library, _due = library, monotonic() + LOOK
    state.native = tick
    state.event("native", unseen, held, library["told"](2))


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
    number, functions = ctypes.c_long, {}
    for of, name, result, arguments in ((library, "attach", ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_double]),
                                        (library, "look", number, []), (library, "detach", number, []),
                                        (held, "told", number, [ctypes.c_int])):
        functions[name] = function = getattr(of, "memgauge_" + name)
        function.restype, function.argtypes = result, arguments
    loaded[path] = functions
    return functions
