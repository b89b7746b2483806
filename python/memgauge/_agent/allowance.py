"""What whoever may read a session may take of the training's time: they may ask for any number of answers."""
from time import monotonic_ns, thread_time_ns

from . import state

SHARE = 0.5              # of the budget, for the backtraces and blocks that are asked for
WINDOW = 60_000_000_000  # ns whose share may be spent at once: 0.3 s of CPU time at 1 %


class Spent(Exception):
    """Answers to readers have taken what the budget allows."""


class Allowance:
    """The CPU time in ns that answers to readers may take."""

    def __init__(self):
        self.level = self.at = None

    def take(self, answer, *args):
        """What answer(*args) returns; Spent where they have had their share of the budget."""
        budget, now = state.settings.budget, monotonic_ns()
        rate = budget * SHARE
        full = rate * WINDOW
        self.level = full if self.at is None else min(full, self.level + (now - self.at) * rate)
        self.at = now
        if self.level <= 0:
            raise Spent("backtraces and lists of blocks have taken the time that the budget of %g%% allows them: "
                        "the next in %.0f s" % (budget * 100, -self.level / rate / 1e9 + 1))
        began = thread_time_ns()
        try:
            return answer(*args)
        finally:
            self.level -= thread_time_ns() - began


readers = Allowance()
