"""Our hooks in torch: how they are installed and removed.

A module's call is watched by exchanging the *code object* of torch.nn.Module.__call__ for a sampled step, 0.1 µs in
all, instead of putting hooks on modules or another function on the class: - nothing is on the user's modules: they are
copied, pickled, scripted and exported as ever, also in a sampled step; - an attribute set on Module would invalidate
the method caches of every subclass, and CPython 3.13 gives a class only 1,000 versions (Objects/typeobject.c,
MAX_VERSIONS_PER_CLASS), after which its attributes are slow for ever; - torch.compile looks at the identity of the
function (torch/_dynamo/utils.py, unpatched_nn_module_call) and at hooks, not at this code: no guard fails, nothing is
compiled again, no graph is broken (test_observer_compile.py). But for classes with a __call__ of their own, whose
super().__call__() it guards by this code's identity: see Compiles. The new code finds us through names in
torch.nn.modules.module, which go when we go. A thread that was just entering it at that moment finds them gone, and
calls torch's own function, which is in its place again.

The end of an optimizer's step is observed by replacing Optimizer._optimizer_step_code, an empty method that the wrapper
of every step() calls last (torch/optim/optimizer.py, profile_hook_step; 1.13 to newest). The profiler reads the local
variable `self` of its frames (torch/csrc/autograd/profiler_python.cpp), so the replacement has one of that name.
"""
import importlib
import types
from _thread import allocate_lock

from ..torchhook import notice
from . import byhand

MODULE_NAMES = ("_memgauge_compiling", "_memgauge_plain", "_memgauge_watched", "_memgauge_roots")

WATCHED = """
def {name}(self, *args, **kwargs):
    try:
        compiling, plain, watched = _memgauge_compiling, _memgauge_plain, _memgauge_watched
    except NameError:
        return Module.{attribute}(self, *args, **kwargs)
    if compiling():
        return plain(self, *args, **kwargs)
    return watched(self, args, kwargs)
"""

# While only root forwards are counted, every other module's call should cost next to nothing: the body of
# Module._wrapped_call_impl (torch 2.1 and newer) is repeated, since calling a copy of it costs 0.3 µs.
ROOTS = """
def {name}(self, *args, **kwargs):
    try:
        compiling, plain, watched, roots = _memgauge_compiling, _memgauge_plain, _memgauge_watched, _memgauge_roots
    except NameError:
        return Module.{attribute}(self, *args, **kwargs)
    if compiling() or id(self) not in roots:
        {plain}
    return watched(self, args, kwargs)
"""
PLAIN = "return plain(self, *args, **kwargs)"
WRAPPED = """if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)"""

STEP = """
def outer(func):
    def {name}(*args, **kwargs):
        try:
            before, plain = _memgauge_before_step, _memgauge_plain_step
        except NameError:
            return func(*args, **kwargs)
        before(args)
        return plain(func)(*args, **kwargs)
"""


_made = {}  # (source, what it stands for) -> code


class Unsupported(Exception):
    """This version of torch, or a change that somebody made to it, can't be hooked; the text says why."""


def copy_of(function):
    """The same function under another identity: it keeps its code when the first one's is exchanged."""
    copy = types.FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class Dynamo:
    """Keeps torch.compile away from our own frames: they run inside of frames that it compiles, and compiling ours
    anew whenever a counter changed would end in its recompile limit and a warning."""

    def __init__(self, torch):
        self.frames = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
        self.compiling = getattr(getattr(torch, "compiler", None), "is_compiling", None) or _never

    def skip(self, function, nested=True):
        """Runs the function as it is; `nested`: also what it calls. Not possible in 1.13, which compiles nothing."""
        frames = self.frames
        if nested:
            # inlined by the tracer it would be; with this it breaks the graph there, as the optimizer's own code does
            function._torchdynamo_disable = True
        try:
            if hasattr(frames, "set_code_exec_strategy"):
                skip, rest = frames._FrameAction.SKIP, frames._FrameAction.SKIP if nested else frames._FrameAction.DEFAULT
                frames.set_code_exec_strategy(function.__code__, frames._FrameExecStrategy(skip, rest))
            elif hasattr(frames, "skip_code"):
                frames.skip_code(function.__code__)
        except (AttributeError, TypeError):
            pass  # this version has other names: the frames are then compiled, which is slow but correct
        return function


def _never():
    return False


class Compiles:
    """Tells when torch.compile begins to trace while a class of the user's has a __call__ of its own: what it compiles
    is then bound to the code that Module.__call__ has at that moment, and each exchange would compile it anew, for
    minutes. torch calls back before it traces (torch/_dynamo/callback.py, 2.4 and newer; before that, one exchange
    costs that)."""

    def __init__(self, torch, guarded):
        self.module_class, self.guarded = torch.nn.Module, guarded
        self.told, self.handler = False, None
        self.off = notice("torch._dynamo", self._found) if hasattr(torch, "compile") else _never

    def _found(self, dynamo):
        self.handler = getattr(dynamo, "callback_handler", None)
        self.listen()
        if getattr(getattr(dynamo, "eval_frame", None), "cached_backends", None):
            self._begins()  # we are attached to a program that has compiled

    def listen(self):
        """Also after torch._dynamo.reset(), which clears the callbacks."""
        if self.handler is not None and self._begins not in self.handler.start_callbacks:
            self.handler.register_start_callback(self._begins)

    def _begins(self, *_):
        try:
            own = None if self.told else own_call(self.module_class)
            if own is not None:
                self.told = True
                self.guarded(own)
        except Exception:
            pass  # a class that is odd; at worst something is compiled once more

    def remove(self):
        self.off()
        if self.handler is not None and self._begins in self.handler.start_callbacks:
            self.handler.remove_start_callback(self._begins)


def own_call(module_class):
    """Name of a module class of the user's that defines __call__, or None. Torch's own don't count: they are not traced
    through."""
    left, seen = [module_class], set()
    while left:
        for cls in type.__subclasses__(left.pop()):
            if "__call__" in cls.__dict__ and not cls.__module__.startswith("torch."):
                return cls.__name__
            if cls not in seen:
                seen.add(cls)
                left.append(cls)
    return None


class Gate:
    """Lets one thread at a time exchange code, and none after shut(). A detach runs on another thread than the
    trainer's, which may be about to open a sample. The trainer only tries the lock; the other thread waits for it, for
    microseconds."""

    def __init__(self):
        self.lock = allocate_lock()
        self.closed = False

    def enter(self):
        if self.closed or not self.lock.acquire(False):
            return False
        if self.closed:
            self.leave()
        return not self.closed

    def leave(self):
        self.lock.release()

    def shut(self):
        held = self.lock.acquire(True, 1)  # not for ever: an interrupt may have ended the holder before its release
        self.closed = True
        if held:
            self.leave()


class ModuleCalls:
    """Lets `watched(module, args, kwargs)` see module calls; the original is `plain`."""

    def __init__(self, torch, gate):
        self.gate = gate
        self.function = self._find(torch)
        self.original = self.function.__code__
        self.space = self.function.__globals__
        self.plain = copy_of(self.function)
        self.roots = set()  # ids of the modules that `only_roots` lets through
        self.codes = None
        self.guarded = False  # compiled code depends on the code that is in place: it stays for good

    def _find(self, torch):
        """Module.__call__, or what it calls when somebody replaced it by a thing without exchangeable code."""
        for name in ("__call__", "_call_impl"):
            function = torch.nn.Module.__dict__.get(name)
            if isinstance(function, types.FunctionType) and not function.__code__.co_freevars:
                self.attribute = name
                return function
        raise Unsupported("torch.nn.Module.__call__ was replaced by %r" % (torch.nn.Module.__call__,))

    def prepare(self, watched, dynamo):
        """Binds our side. May be called again, with another `watched`."""
        name = self.original.co_name
        plain = WRAPPED if self.original.co_names == ("_compiled_call_impl", "_call_impl") else PLAIN
        self.codes = {
            "all": self._code(WATCHED.format(name=name, attribute=self.attribute)),
            "roots": self._code(ROOTS.format(name=name, attribute=self.attribute, plain=plain)),
        }
        values = (dynamo.compiling, self.plain, watched, self.roots)
        self.space.update(zip(MODULE_NAMES, values))

    def _code(self, source):
        key = source, self.original
        if key not in _made:
            # Under torch's own file name: torch.compile goes by it when it decides which frames are not the user's.
            space = {}
            exec(compile(source, self.original.co_filename, "exec"), space)
            code = space[self.original.co_name].__code__
            _made[key] = code.replace(co_firstlineno=self.original.co_firstlineno)
        return _made[key]

    def watch(self, what):
        """`all` modules' calls, those of the `roots`, or none (None). False if somebody else has exchanged the code,
        None if another thread is at the gate or has shut it."""
        if not self.gate.enter():
            return None
        try:
            return self._exchange(what)
        finally:
            self.gate.leave()

    def _exchange(self, what):
        """Exchanges the code, unless somebody else has exchanged it: theirs stays."""
        if self.guarded and what is not None:
            return False
        wanted = self.original if what is None else self.codes[what]
        code = self.function.__code__
        if code is wanted:
            return True
        if code is not self.original and code not in self.codes.values():
            return False
        self.function.__code__ = wanted
        return True

    def remove(self):
        """After the gate was shut."""
        self._exchange(None)
        for name in MODULE_NAMES:
            self.space.pop(name, None)


class StepStarts:
    """Tells, in sampled steps, that an optimizer's step() begins: each class has a wrapper of its own (`hooked`), whose
    code is exchanged in the same way. Only for optimizers that are not compiled: there the code is guarded."""

    def __init__(self, before, gate):
        self.before, self.gate = before, gate
        # what a wrapper wraps -> a copy of the wrapper. One for each optimizer class, kept until forget()
        self.copies = {}
        self.known = {}  # wrapper -> (its own code, ours)
        self.active = []

    def add(self, optimizer):
        function = getattr(type(optimizer), "step", None)
        if not isinstance(function, types.FunctionType) or function.__code__.co_freevars != ("func",):
            return False
        if not self.gate.enter():       # a detach has begun, which takes what is learned away
            return False
        try:
            if function not in self.known:
                self._learn(function)
            original, ours = self.known[function]
            if function.__code__ is original:
                function.__code__ = ours
                self.active.append(function)
            return function.__code__ is ours
        finally:
            self.gate.leave()

    def _learn(self, function):
        original, space = function.__code__, {}
        key = STEP, original
        if key not in _made:
            exec(compile(STEP.format(name=original.co_name), original.co_filename, "exec"), space)
            _made[key] = next(c for c in space["outer"].__code__.co_consts if isinstance(c, types.CodeType))
        inner = _made[key]
        self.copies[function.__closure__[0].cell_contents] = copy_of(function)
        self.known[function] = original, inner
        function.__globals__.update(_memgauge_before_step=self.before, _memgauge_plain_step=self.copies.__getitem__)

    def compiled(self, optimizer, caller):
        """Whether the step that is ending, whose wrapper's frame is `caller`, runs code that torch.compile made."""
        function = getattr(type(optimizer), "step", None)
        original = self.known.get(function, (getattr(function, "__code__", None),))[0]
        return caller.f_code is not original

    def remove(self):
        while self.active:
            function = self.active.pop()
            original, ours = self.known[function]
            if function.__code__ is ours:
                function.__code__ = original

    def forget(self):
        """After the gate was shut: also the names in torch's modules."""
        self.remove()
        for function in self.known:
            for name in ("_memgauge_before_step", "_memgauge_plain_step"):
                function.__globals__.pop(name, None)
        self.known.clear()


class StepEnds:
    """Optimizer._optimizer_step_code, replaced; put back as it was."""

    def __init__(self, torch):
        # torch.optim.optimizer is hidden by a function of that name in some versions: ask the import system
        self.owner = importlib.import_module("torch.optim.optimizer").Optimizer
        self.original = self.owner.__dict__.get("_optimizer_step_code")
        if self.original is None:
            raise Unsupported("torch.optim.Optimizer has no _optimizer_step_code")
        self.ours = None
        byhand.install(torch)

    def put(self, function):
        if self.owner.__dict__.get("_optimizer_step_code") in (self.original, self.ours):
            self.ours = function
            self.owner._optimizer_step_code = function

    def remove(self):
        byhand.stop()
        if self.ours is not None and self.owner.__dict__.get("_optimizer_step_code") is self.ours:
            self.owner._optimizer_step_code = self.original
        self.ours = None
