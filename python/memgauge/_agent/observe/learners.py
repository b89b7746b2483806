"""Hooks at the end of a step in libraries other than PyTorch:

- JAX calls a hook after each call of a compiled function that it finds in its cache (jaxlib, jax_jit.h: post_hook).
  A function of the program's counts that gets what it returned back at its next call: it carries the training's state
  along, as a train_step does and an evaluation doesn't. Where none does after PLAIN calls, its calls count as they are.
- Keras's CallbackList hears of every training batch, whatever the backend.
- XGBoost and LightGBM call a function of their C library for every boosting round. Its name in the ctypes library is
  given another value, so that no frame of ours is in a traceback: an error is raised after it has returned.

Each hook is removed without a trace. Nothing of the program is kept alive. An error of ours ends the counting there.
"""
import sys
from weakref import ref

from .. import state
from . import loop

PLAIN = 20       # calls in which a function shows whether it carries state; as inference.py waits for an optimizer
SOME = 32        # of a call's results are looked for at the next call: a state's arrays all come back together
MANY = 4096      # arguments that are searched for them
FUNCTIONS = 256  # of JAX that are known by name; a program that makes more of them makes them in a loop

_off = []        # what takes our hooks off
_boosting = set()    # (library, pid) whose model is known to grow


def found(module):
    """A module has been imported that we hook into."""
    try:
        _HOOKS[module.__name__](module)
    except Exception:
        state.error("hooks of " + module.__name__)


def uninstall():
    while _off:
        try:
            _off.pop()()
        except Exception:
            state.error("hooks")


# --- JAX --------------------------------------------------------------------------------------------------------------

class _Function:
    """A compiled function, known by its calls."""

    __slots__ = ("alive", "what", "source", "calls", "results", "ignored")

    def __init__(self, function):
        self.alive = ref(function)
        module, name = getattr(function, "__module__", None) or "", getattr(function, "__name__", "a function")
        self.what = "calls of %s, compiled by JAX" % name
        self.ignored = module.partition(".")[0] in ("jax", "jaxlib")     # what jax.numpy is made of
        self.calls, self.results, self.source = 0, (), 0

    def learn(self, args, kwargs, results):
        """The number of steps that this call proves."""
        self.calls += 1
        if self.results and self._comes_back((args, kwargs)):
            self.source, self.results = loop.CARRYING, ()
        elif self.calls >= PLAIN:
            self.source, self.results = loop.CALLS, ()
        else:
            self.results = [ref(leaf) for leaf in _leaves(results)[:SOME] if type(leaf).__weakrefoffset__]
            return 0
        return self.calls + 1       # the first one was not in the cache

    def _comes_back(self, arguments):
        before = {id(leaf) for leaf in (result() for result in self.results) if leaf is not None}
        return any(id(leaf) in before for leaf in _leaves(arguments)[:MANY])


def _leaves(tree):
    return sys.modules["jax.tree_util"].tree_leaves(tree)


def _jax(api):
    place = getattr(api, "_post_hook_state", None)
    if place is not None:                      # jax 0.5 and newer
        get, put = place.get_global, place.set_global
    else:
        shared = api.jax_jit.global_state()

        def get():
            return shared.post_hook

        def put(hook):
            shared.post_hook = hook
    before, known = get(), {}

    def called(function, args, kwargs, results):
        try:
            entry = known.get(id(function))
            if entry is None or entry.alive() is not function:
                if len(known) >= FUNCTIONS:
                    known.clear()
                entry = known[id(function)] = _Function(function)
            if entry.source:
                loop.beat(entry.source, id(function), entry.what)
            elif not entry.ignored:
                steps = entry.learn(args, kwargs, results)
                if steps:
                    loop.beat(entry.source, id(function), entry.what, steps)
        except Exception:
            state.error("jax")
            uninstall()
        if before is not None:
            before(function, args, kwargs, results)

    def off():
        if get() is called:
            put(before)

    put(called)
    _off.append(off)


# --- Keras ------------------------------------------------------------------------------------------------------------

def _keras(module):
    owner = getattr(module, "CallbackList", None)
    original = getattr(owner, "on_train_batch_end", None)
    if original is None:
        return

    def on_train_batch_end(self, batch, logs=None):
        _safely(loop.BATCHES, id(owner), "batches of Keras")
        return original(self, batch, logs)

    def off():
        if owner.on_train_batch_end is on_train_batch_end:
            owner.on_train_batch_end = original

    on_train_batch_end.__wrapped__ = original
    owner.on_train_batch_end = on_train_batch_end
    _off.append(off)


def _safely(source, key, what):
    try:
        loop.beat(source, key, what)
    except Exception:
        state.error(what)
        uninstall()


# --- boosting ---------------------------------------------------------------------------------------------------------

class _Counted:
    """A function of a C library in the place of the real one: its attributes (argtypes, restype) are that one's."""

    def __init__(self, real, library):
        self.__dict__.update(_real=real, _library=library, _what="boosting rounds of " + library)

    def __call__(self, *args):
        result = self._real(*args)
        if state.current is not None and (self._library, state.current.pid) not in _boosting:
            _boosting.add((self._library, state.current.pid))
            state.event("boosting", self._library)      # whatever counts steps: a verdict must know of it
        # a forest or a cross-validation boosts several boosters in turn: each has a handle
        _safely(loop.ROUNDS, getattr(args[0], "value", 0) if args else 0, self._what)
        return result

    def __getattr__(self, name):
        return getattr(self._real, name)

    def __setattr__(self, name, value):
        setattr(self._real, name, value)


def _rounds(library_name, *names):
    def hook(module):
        library = module._LIB
        for name in names:
            real = getattr(library, name, None)
            if real is not None:
                _count(library, name, real, library_name)
    return hook


def _count(library, name, real, library_name):
    ours = _Counted(real, library_name)

    def off():
        if library.__dict__.get(name) is ours:
            setattr(library, name, real)

    setattr(library, name, ours)
    _off.append(off)


_HOOKS = {
    "jax._src.api": _jax,
    "keras.src.callbacks": _keras,
    "xgboost.core": _rounds("XGBoost", "XGBoosterUpdateOneIter", "XGBoosterTrainOneIter", "XGBoosterBoostOneIter",
                            "XGBoosterTrainOneIterWithSplitGrad"),
    "lightgbm.basic": _rounds("LightGBM", "LGBM_BoosterUpdateOneIter",
                              "LGBM_BoosterUpdateOneIterCustom"),
}
