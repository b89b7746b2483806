"""Objects that must outlive a detach, because the interpreter or C code still refers to them: hooks for forks and the
exit, which can't be unregistered, and functions whose address C has. They are made once in a process. The next attach,
also by a newer memgauge, finds them again, so that a thousand attaches leave as much behind as one.

They are registered as error handlers of codecs: the only registry of an interpreter that holds any function under a
name of ours and that no program lists. Names carry a version: the interface of the object under a name never changes.
"""
import _codecs

_made = {}     # by this attach; a dict, for setdefault() can't be interrupted


def get(name, make):
    """The value of that name; make() makes it the first time. It must not refer to our modules."""
    name = "memgauge." + name
    try:
        return _codecs.lookup_error(name)()
    except LookupError:
        # Two threads may come here at once. Both must get the same object: C keeps the address of what it was given,
        # and what the second one registers would take the first one's place.
        value = _made.setdefault(name, make())
        _codecs.register_error(name, bare(lambda value=value: value))
        return value


def bare(function):
    """The function with builtins for its only globals, so that it keeps nothing of ours alive."""
    return type(function)(function.__code__, {"__builtins__": __builtins__}, function.__name__, function.__defaults__)
