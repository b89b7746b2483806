"""Steps that no optimizer of PyTorch ends: beats. A beat is a call of memgauge.step(), a boosting round, a batch of
Keras, a call of a compiled function of JAX (learners.py), or a unit of a server's work that is over: a request.

What trains counts before what serves: a training that answers requests too (for its metrics) is judged by its steps.

The observer treats a beat like the step of an optimizer. If torch is imported too, its observer gets the beats, so that
an iteration with both is one step; else an observer without torch is made. Only the most explicit source counts. If
PyTorch's optimizers step already, no beat counts.
"""
from _thread import allocate_lock

from .. import state
from ..gauges.memory import Host
from .modules import Names
from .observer import Observer, install

# sources, the more explicit one is the higher
CALLS, INFER, ENGINE, REQUEST, CARRYING, BATCHES, ROUNDS, UNIT, PROGRAM = range(1, 10)
WORK = {INFER: 1, ENGINE: 2, REQUEST: 3}     # what a step of theirs is, a place in WORK_KINDS; a UNIT says it itself
SILENT = 10              # above all sources: PyTorch's optimizers count
PATIENCE = 1000          # beats of a lesser source in which one that counts was silent: its training has ended
MAX_BEATS = 64           # functions or boosters that are distinguished; a program with more makes them in a loop

_beats = {}              # key -> Beat
_source = 0              # that counts
_unheard = 0             # beats of lesser sources since its last one
_told = set()            # texts of events


class Beat:
    """A source of beats, in the place of an optimizer."""

    __slots__ = ("__weakref__",)


class _Absent:
    """Does nothing, in place of an observer's hooks in torch."""

    def skip(self, *_, **__):
        pass

    put = remove = shut = forget = compiled = step_ended = first_forward = reset = skip


class _NoCuda:
    def ready(self):
        return False


class Loop(Observer):
    """An observer without torch: it has no modules to watch."""

    def __init__(self):
        self.torch = self.modules = self.ring = self.visit = None
        self.lock, self.holder = allocate_lock(), 0
        self.errors = self.trains_on = 0
        self.removed = False
        self.host, self.cuda, self.names = Host(), _NoCuda(), Names()
        self.dynamo = self.ends = self.gate = self.starts = self.compiles = self.phases = _Absent()
        self._start()


def beat(source, key, what, times=1, work=0):
    """The thing `key` of that source ended a step; `what` says in words what counts, `work` what a step of a UNIT is.
    Says whether it does count."""
    global _unheard
    if state.current is None or source < _source and not _is_over():
        return False
    _unheard = 0
    observer = state.observer
    token = _beats.get(key) if source == _source else None
    if token is None:
        token = _first(source, key, what, WORK.get(source, work))
        if token is None:
            return False
        observer = state.observer
    if times > 1:
        observer.counter.add(times - 1)
    observer.counter.hook(token)
    return True


def by_hand():
    """Whether the program says itself what its units are, and how many tokens each is of."""
    return _source >= UNIT


def _is_over():
    """Whether the counting source has ended, now that another one beats. What the program marks itself never counts as
    ended: a loop may call memgauge.step() once in an epoch."""
    global _source, _unheard
    _unheard += 1
    if _unheard < PATIENCE or _source >= UNIT:
        return False
    _source = 0
    _beats.clear()
    return True


def _first(source, key, what, work):
    """The first beat of a function, a booster: a token for it; None where PyTorch's optimizers count."""
    global _source
    observer = state.observer
    if observer is not None and observer.torch is not None and not _beats and observer.step > 0 and not \
            observer.inference:
        _source = SILENT
        return None
    if observer is None:
        observer = state.observer = Loop()
    if source > _source or len(_beats) >= MAX_BEATS:
        _beats.clear()      # the observer, which treats them as optimizers, then sees that they are gone
    _source = source
    state.work[0], observer.serves = work, _silence if work else None
    token = _beats.setdefault(key, Beat())     # two threads may come here at once
    if not observer.optimizers.number(token):
        observer.optimizers.enter(token)    # it has no step() whose code could tell whether it is compiled
    if what not in _told:
        _told.add(what)
        state.event("steps", what)
    return token


def _silence():
    """An optimizer has stepped while units of work were counted: it is a training that answers requests too."""
    global _source
    _source, state.work[0] = SILENT, 0
    _beats.clear()


def torch_is_there(torch):
    """Replaces the observer without torch by torch's, which continues its count."""
    before = state.observer
    if before is None or before.torch is not None:
        install(torch)
        return
    before.remove()
    state.observer = None
    install(torch)
    after = state.observer
    if after is not None and before.step > 0:
        after.counter.add(before.step)
        after.counter.told(before.step, 0, 0, 0)
        after.next_sample = before.step + 2
    _beats.clear()


def after_fork():
    """In the child: nothing has stepped."""
    global _source
    _source = state.work[0] = 0
    _beats.clear()
    _told.clear()
    state.tokens.clear()
    observer = state.observer
    if observer is not None and observer.torch is None:
        state.observer = None
