"""What an interactive shell keeps for its user beside the user's own names: results of cells, and the last exception.

IPython keeps each result in Out, which it also calls _oh, in a name of its own (_5), and the last three in _, __ and
___ (IPython/core/displayhook.py, update_user_ns). Python keeps an exception that nobody caught in sys, with
all frames that it came through. What also has a name of the user's is told by that name: these come after."""
import sys

from . import introspect

RESULTS = "Out"
ERRORS = ("last_exc", "last_value", "last_traceback")     # of sys; the first since 3.12
_LAST = ("_", "__", "___")
_NAMES = frozenset(_LAST + ("In", "Out", "_ih", "_oh", "_dh", "_i", "_ii", "_iii", "exit", "quit", "get_ipython"))


def is_shells(key, values):
    """Whether a name of __main__ is the shell's: values is its namespace."""
    if "_oh" not in values or type(key) is not str:
        return False
    return key in _NAMES or is_numbered(key) or key[:2] == "_i" and key[2:].isdigit()


def is_numbered(key):
    """Whether this is a name that IPython gives to a result: _5."""
    return key[:1] == "_" and key[1:].isdigit()


def results(values):
    """The dict of results, or None."""
    kept = values.get("_oh")
    return kept if type(kept) is dict else None


def last_results(values):
    """(label, value) of results that Out may have no more: it has a limit."""
    for key in list(values):
        if key in _LAST or type(key) is str and is_numbered(key):
            yield key, values[key]


def errors():
    """(label, value) of the last exception that nobody caught."""
    for key in ERRORS:
        value = sys.__dict__.get(key)
        if value is not None:
            yield "sys." + key, value


def shell(values):
    """The shell itself, which the frames of a failed cell lead to, or None. It is not what the error holds."""
    bound = values.get("get_ipython")
    return bound.__self__ if type(bound) is introspect.Method else None


def figures():
    """The dict of pyplot's open figures, or None: it keeps each one until it is closed."""
    module = sys.modules.get("matplotlib._pylab_helpers")
    keeper = introspect.module_dict(module).get("Gcf") if module is not None else None
    return introspect.namespace(keeper).get("figs") if introspect.isinstance_of(keeper, type) else None
