"""For loops with accelerate:

    memory = MemgaugeCallback(accelerator)
    for epoch in range(3):
        with memory.epoch(epoch):
            for batch in loader:
                …
                memory.step()
        with memory.evaluation():
            …
    memory.end()

Checkpoints of accelerator.save_state() become events by themselves; the verdict and the rate of a leak are written by
accelerator.log(), so they land in its trackers."""
from contextlib import contextmanager

from .verdicts import Verdicts


class MemgaugeCallback:
    """Does nothing in a process that memgauge doesn't observe, but to say so once."""

    def __init__(self, accelerator):
        self.accelerator, self.steps = accelerator, 0
        self._verdicts = Verdicts(accelerator.is_main_process)
        self._hook = accelerator.register_save_state_pre_hook(self._saves)
        self._verdicts.event("training", "begin")

    def step(self):
        """At the end of each iteration."""
        self.steps += 1
        self._log(self._verdicts.look())

    @contextmanager
    def epoch(self, number):
        """A context for the epoch with that number: its begin and end become events."""
        with self._stretch("epoch", number):
            yield

    @contextmanager
    def evaluation(self):
        """A context for an evaluation: its begin and end become events."""
        with self._stretch("evaluation", 0):
            yield

    def end(self):
        """Before accelerator.end_training(): waits for the last verdict, and logs it."""
        self._verdicts.event("training", "end", 0, self.steps)
        self._hook.remove()
        self._log(self._verdicts.last())

    @contextmanager
    def _stretch(self, name, number):
        self._verdicts.event(name, "begin", number, self.steps)
        try:
            yield
        finally:
            self._verdicts.event(name, "end", number, self.steps)

    def _saves(self, models, weights, output_dir):
        self._verdicts.event("checkpoint", "begin", 0, self.steps)

    def _log(self, metrics):
        if metrics:
            self.accelerator.log(metrics, step=self.steps)
