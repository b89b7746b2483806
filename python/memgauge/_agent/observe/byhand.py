"""Training by hand: gradients are asked for, and no optimizer takes them. Runs of autograd's engine are the steps then.

torch's Python functions get run_backward from Variable._execution_engine (1.13 and newer), which C++ knows nothing of.
An object of ours takes its place until an optimizer steps or forwards are counted: in other trainings for a step or
two. It notices that the method is looked up, so no frame of ours is in the traceback of a run that fails.
"""
from .. import state

RUNS = 64      # without an optimizer's step or a module's forward: more than gradients are summed over before the first

_engine = None


class _Hand:
    """Takes the place of an optimizer."""


class _Engine:
    """In the place of the engine."""

    def __init__(self, owner):
        self._real, self._owner, self._runs, self._hand = owner._execution_engine, owner, 0, None

    @property
    def run_backward(self):
        try:
            self._begins()
        except Exception:
            state.error("runs of autograd")
            stop()
        return self._real.run_backward

    def __getattr__(self, name):
        return getattr(self._real, name)

    def _begins(self):
        """A run begins: the step before has ended."""
        observer = state.observer
        if observer is None or observer.inference or len(observer.optimizers.alive()) > (self._hand is not None):
            stop()
            return
        self._runs += 1
        if self._runs > RUNS:
            if self._hand is None or not observer.optimizers.number(self._hand):     # a forked child begins anew
                self._hand = _Hand()
                observer.optimizers.enter(self._hand)
                state.event("steps", "runs of autograd, since no optimizer steps")
            observer.counter.hook(self._hand)


def install(torch):
    global _engine
    owner = getattr(torch.autograd, "Variable", None)
    if _engine is None and hasattr(getattr(owner, "_execution_engine", None), "run_backward"):
        _engine = owner._execution_engine = _Engine(owner)


def stop():
    """Puts torch's engine back."""
    global _engine
    engine, _engine = _engine, None
    if engine is not None and engine._owner._execution_engine is engine:
        engine._owner._execution_engine = engine._real
