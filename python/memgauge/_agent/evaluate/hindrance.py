"""Why a thread should not or must not be stopped where it is. Its stack, and those of other threads, show whether
PyTorch is in the middle of an operation."""
import sys
from time import monotonic

from .. import frames, mainthread, state
from . import scope

_LIFE = state.PACKAGE + "_agent/life.py"               # a thread with it on its stack is in a fork, or ends
_EVALS = state.PACKAGE + "_agent/evaluate/job.py"      # a thread with it on its stack runs an eval

# Files of torch's that lie below the whole of a training (launchers, decorators), or that only wait for data.
HARMLESS = ("multiprocessing/", "distributed/elastic/", "distributed/launcher/", "distributed/run.py",
            "utils/_contextlib.py",
             "utils/data/", "autograd/grad_mode.py", "_inductor/compile_worker/", "_inductor/async_compile.py")
# s for which a thread counts as being in PyTorch after it was last seen there, since it leaves between two calls
REMEMBERED = 1.0
_in_torch = {}       # thread's ident: when it was seen there (monotonic)
# torch/autograd/graph.py since 2.1; before, the two functions of torch/autograd/__init__.py
_ENGINE = "_engine_run_backward"
_BEFORE_ENGINE = ("autograd/__init__.py", "overrides.py")   # what those call before C++


def torch_home():
    home = getattr(sys.modules.get("torch"), "__file__", None)
    return home.rpartition("/")[0] + "/" if isinstance(home, str) else "\0"


def of(frame):
    """(why the thread should not be stopped here, whether it must not). Frames of Python tell when C++ has called back:
    a function of torch's that enters the autograd engine, and is not the innermost, has the engine above it."""
    home = torch_home()
    inner, users, soft = None, False, ""    # inner: the frame that this one has called
    if frame.f_code.co_name == _ENGINE and frame.f_code.co_filename == home + "autograd/graph.py":
        return "", False             # where the engine has just returned to
    if scope.is_ours_or_python(frame.f_code.co_filename):
        soft = "it is in Python's own %s" % place_of(frame)
    for frame in frames.stack(frame):
        code = frame.f_code
        name = code.co_filename
        if name.startswith(home):
            rest = name[len(home):]
            if inner is not None and _entered_engine(rest, code.co_name, inner, home):
                return "it is in a backward pass", True
            if not users and rest.startswith("optim/"):
                return "it is in an optimizer's step", True
            if not rest.startswith(HARMLESS):
                soft = "PyTorch is on its stack"
        elif name == _LIFE:      # other hooks of os.fork may have taken locks, which the code's own fork would wait for
            return "it is in a fork, or ends", True
        elif not scope.is_ours_or_python(name):
            users = True
        if code.co_name == "__del__":
            soft = "it is in a destructor"
        inner = frame
    return soft, False


def _entered_engine(rest, function, inner, home):
    if function == _ENGINE and rest == "autograd/graph.py":
        return True
    if rest != "autograd/__init__.py" or function not in ("backward", "grad"):
        return False
    name = inner.f_code.co_filename
    if not name.startswith(home):
        return True
    name = name[len(home):]
    return name not in _BEFORE_ENGINE and not (name == "autograd/graph.py" and inner.f_code.co_name == _ENGINE)


def others():
    """(a text about a thread, other than the main one and ours, that is in PyTorch, was there a moment ago, or makes
    the steps, or ""; whether there is a thread that may come there: one with code of the program's own, where PyTorch
    is)."""
    home, now = torch_home(), monotonic()
    if home == "\0":
        return "", False
    main = mainthread.ident()
    trains = getattr(state.observer, "trains_on", None)
    some, tops = False, frames.innermost()
    for gone in set(_in_torch).difference(tops):
        _in_torch.pop(gone, None)
    for ident, top in tops.items():
        if ident == main:
            continue
        if ident == trains:
            return "another thread trains, at %s" % place_of(top), True
        inside, users = _looked_at(top, home)
        if inside:
            _in_torch[ident] = now
        if now < _in_torch.get(ident, now - REMEMBERED) + REMEMBERED:
            return "another thread is in PyTorch, at %s" % place_of(top), True
        some = some or users
    return "", some


def _looked_at(top, home):
    """(whether the thread is in PyTorch, whether code of the program is on its stack)."""
    inside = users = False
    for frame in frames.stack(top):
        name = frame.f_code.co_filename
        if name == _EVALS:
            return False, False
        if name.startswith(home):
            inside = inside or not name[len(home):].startswith(HARMLESS)
        else:
            users = users or not (scope.is_ours_or_python(name) or scope.is_installed(name))
    return inside, users


def place_of(frame):
    return "%s() (%s:%d)" % (frame.f_code.co_name, frame.f_code.co_filename, frame.f_lineno or 0)
