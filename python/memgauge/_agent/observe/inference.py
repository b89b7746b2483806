"""Processes that call models without training: groups of root forwards take the place of steps."""
from time import monotonic_ns as now

from .governor import Governor
from .sampling import IDLE

RETRY = 1000  # root forwards at most until opening a ring is tried again
INFERENCE = 20  # root forwards without any optimizer step: more than any warm-up or sanity check has


class Forwards:
    """The part of an Observer that counts forwards until an optimizer steps."""

    serves = None   # while units of a server's work are counted (loop.py): what ends that

    def _trains(self):
        """An optimizer steps for the first time."""
        serves, self.serves = self.serves, None
        if serves is not None:
            serves()
        for gone in self.optimizers.gone():
            self.steps.gone(gone)

    def _forward(self):
        """A root forward begins."""
        self.steps.forward()
        self.forwards += 1
        if self.forwards == 1:
            self.phases.first_forward()
        if self.steps.events:
            return
        if self.forwards < self.infers_at:
            if self.governor.all and self.forwards == 1 and self._open():
                self._begin_sample()
        elif self.ring is None or not self.inference:
            self._infer()

    def _infer(self):
        """Counts this root forward and those before it, or tries to at a later one."""
        self.inference = True
        if not self._open():  # another thread may be at it
            self.infers_at = self.forwards + min(RETRY, self.forwards - INFERENCE + 1)
            return
        for _ in range(self.forwards - 1):  # this one adds itself as it ends
            self.counter.add()
        self.calls.forward_end = self._forward_end
        self._stop_looking()

    def _forward_end(self):
        if self.counter.add():
            self._due()

    def _end_inference(self):
        """The forwards were not inference, but what came before the training: steps count from 1."""
        at = now()
        self._record(at, flush=True)
        self.inference = False
        # the duration of a forward says nothing about that of a step
        self.governor = Governor(self.governor.budget, self.governor.trace)
        self.costs.governor = self.governor
        self.calls.forward_end = None
        self.offset = self.counter.get()
        # the first step began at some forward before this: its length is unknown
        self.counter.told(0, 0, 0, self.offset)
        self.steps.forwards = max(1, self.steps.forwards)
        self.phase, self.next_sample = IDLE, 2
        self.calls.end()
        self.modules.watch(None)
