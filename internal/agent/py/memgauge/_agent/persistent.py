"""What must outlive a detach, because the interpreter or C code goes on holding it: hooks for forks and the exit, which
can't be unregistered, and functions that C has an address of. It is made once in a process and found again by the next
attach, also by a newer memgauge, so that a thousand attaches leave as much as one.

It is kept as error handlers of codecs: the one registry of an interpreter that holds any function under a name of ours
and that no program looks through. Names carry a version: what is under a name never changes its shape.
"""
import _codecs


def get(name, make):
    """The value of that name; make() makes it the first time. It must not refer to our modules."""
    name = "memgauge." + name
    try:
        return _codecs.lookup_error(name)()
    except LookupError:
        value = make()
        _codecs.register_error(name, bare(lambda value=value: value))
        return value


def bare(function):
    """The function with builtins for its only globals, so that it keeps nothing of ours alive."""
    return type(function)(function.__code__, {"__builtins__": __builtins__}, function.__name__, function.__defaults__)
